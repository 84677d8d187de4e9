// Package drive sends requests to addresses on the loopback interface and counts what
// comes back: HTTP/1.1 requests, or calls of Envoy's rate limit service. Tests offer a
// [Load]; benchmarks keep a [Client] and send at a [Pace].
//
// It runs beside the servers that it drives, on the same few cores, so it is built to use
// little: one goroutine, one epoll set, requests written whole, replies read into one buffer
// per connection, next to nothing allocated per request.
package drive

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Pace is how much to send. It ends after Duration or Requests, whichever comes first;
// Duration must be greater than zero.
type Pace struct {
	Duration time.Duration
	// Requests is the greatest number of requests; 0 means no bound but Duration.
	Requests int64
	// Rate is how many requests are due per second, evenly spaced, whether or not
	// earlier ones were answered (an open loop). 0 sends the next request of a
	// connection when the last one was answered (a closed loop).
	Rate float64
}

// patience is how long a load that waits for replies may be without any.
const patience = 30 * time.Second

// Client holds connections that stay open from one run to the next. It is not safe for
// concurrent use.
type Client struct {
	seconds bool   // fill Result.Seconds and Rejected, which benchmarks do without
	name    string // of the servers, for errors
	keys    Keys
	conns   []*conn
	epoll   int
}

// Dial opens n connections to addr, an IPv4 address of the loopback interface, on which
// every request is a GET of path with a key of its own in x-user-id.
func Dial(addr, path string, keys Keys, n int) (*Client, error) {
	request := keyed(path)
	return dial(addr, keys, n, func() protocol { return &http1{each: request} })
}

// DialRLS opens n connections to addr, an IPv4 address of the loopback interface,
// on which every request is a call of Envoy's rate limit service. Its answers are
// counted as Envoy passes them on: 200 for OK, 429 for OVER_LIMIT, and 500 for
// none of these.
// A call asks about a descriptor of domain with one entry of that key; its value is "user-" and
// the number in eight digits.
func DialRLS(addr, domain, entry string, keys Keys, n int) (*Client, error) {
	return dial(addr, keys, n, func() protocol { return newRLS(addr, domain, entry) })
}

func dial(addr string, keys Keys, n int, speaks func() protocol) (*Client, error) {
	c, err := newClient([]string{addr}, keys, n, speaks)
	if err != nil {
		return nil, err
	}
	for _, cn := range c.conns {
		if err := c.connect(cn); err != nil {
			c.Close()
			return nil, fmt.Errorf("drive: %s: %w", c.name, err)
		}
	}
	return c, nil
}

// newClient makes n connections to each address, which are opened when they are used.
func newClient(addrs []string, keys Keys, n int, speaks func() protocol) (*Client, error) {
	c := &Client{name: fmt.Sprint(addrs), keys: keys, epoll: -1}
	for i := range n * len(addrs) {
		addr := addrs[i%len(addrs)]
		ap, err := netip.ParseAddrPort(addr)
		if err != nil || !ap.Addr().Is4() || !ap.Addr().IsLoopback() {
			return nil, fmt.Errorf("drive: address %q: load goes to 127.0.0.0/8 only", addr)
		}
		to := unix.SockaddrInet4{Addr: ap.Addr().As4(), Port: int(ap.Port())}
		c.conns = append(c.conns, &conn{fd: -1, index: int32(i), to: to, speaks: speaks()})
	}
	var err error
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("drive: epoll: %w", err)
	}
	return c, nil
}

// Close closes the connections.
func (c *Client) Close() {
	for _, cn := range c.conns {
		cn.close()
	}
	_ = unix.Close(c.epoll)
}

// Run sends at a pace and returns when all of it was answered, or its patience is at an
// end. When ctx is done it sends no more. An error means that the load could not
// be sent; what servers answered is in the Result.
func (c *Client) Run(ctx context.Context, p Pace) (*Result, error) {
	if p.Duration <= 0 || p.Rate < 0 {
		return nil, fmt.Errorf("drive: a pace needs a duration above zero and a rate of zero or more: %+v", p)
	}
	r := newRun(c, p)
	if err := r.loop(ctx); err != nil {
		return nil, fmt.Errorf("drive: %s: %w", c.name, err)
	}
	return r.result, nil
}
