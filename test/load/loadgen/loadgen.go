//go:build linux

// Package loadgen sends requests to one address on the loopback interface and counts
// what comes back: HTTP/1.1 requests, or calls of Envoy's rate limit service.
//
// It runs beside the servers it measures, on the same few cores, so it is built
// to use little: one thread, one epoll set, requests rendered before the run and
// written whole, replies read into one buffer per connection, nothing allocated
// per request.
package loadgen

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/test/kit/measure"
)

// Load says what to send. Every load is bounded: it ends after Duration or
// Requests, whichever comes first, and Duration must be greater than zero.
type Load struct {
	Keys     Keys
	Duration time.Duration
	// Requests is the greatest number of requests; 0 means no bound but Duration.
	Requests uint64
	// Rate is how many requests are due per second, evenly spaced, whether or not
	// earlier ones were answered (an open loop). 0 sends the next request of a
	// connection when the last one was answered (a closed loop).
	Rate float64
}

// Result is what one run has seen.
type Result struct {
	Elapsed time.Duration
	// Due is how many requests the rate asked for; in a closed loop, how many were
	// sent. Due == Done + Failed + Missed.
	Due    uint64
	Done   uint64 // answered
	Failed uint64 // connection broken, or reply not understood, or none within the grace
	Missed uint64 // due, but never sent: the servers or this driver were too slow
	// Status counts the answers by status code.
	Status [600]uint64
	// Latency is from when a request was due (closed loop: sent) to its answer, so
	// that a stall counts against every request that it delayed.
	Latency measure.Hist
	// Lag is from when a request was due to when it was sent.
	Lag measure.Hist
	// CPU is what the driver itself used.
	CPU time.Duration
}

// Achieved is the answers per second.
func (r *Result) Achieved() float64 { return float64(r.Done) / r.Elapsed.Seconds() }

// grace is how long after the end of a run answers are waited for. For the first
// half of it an open loop goes on sending what was due earlier.
const grace = 2 * time.Second

// Client holds the connections to one server, which stay open between runs. It
// is not safe for concurrent use.
type Client struct {
	addr  netip.AddrPort
	conns []*conn
	epoll int
	timer int // timerfd: epoll_wait alone sleeps in whole milliseconds
}

// Dial opens n connections to addr, an IPv4 address of the loopback interface,
// on which every request asks for path.
func Dial(addr string, path string, n int) (*Client, error) {
	req := newRequest(path)
	return dialWith(addr, n, func() protocol { return req.clone() })
}

// DialRLS opens n connections to addr, an IPv4 address of the loopback interface,
// on which every request is a call of Envoy's rate limit service. Its answers are
// counted as Envoy passes them on: 200 for OK, 429 for OVER_LIMIT, and 500 for
// none of these.
func DialRLS(addr string, ask Ask, n int) (*Client, error) {
	return dialWith(addr, n, func() protocol { return newRLS(addr, ask) })
}

func dialWith(addr string, n int, speaks func() protocol) (*Client, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("loadgen: address %q: %w", addr, err)
	}
	if !ap.Addr().Is4() || !ap.Addr().IsLoopback() {
		return nil, fmt.Errorf("loadgen: address %q: load goes to 127.0.0.0/8 only", addr)
	}
	c := &Client{addr: ap, epoll: -1, timer: -1}
	if err := c.open(speaks, n); err != nil {
		c.Close()
		return nil, fmt.Errorf("loadgen: %s: %w", addr, err)
	}
	return c, nil
}

func (c *Client) open(speaks func() protocol, n int) (err error) {
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	c.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	if err := c.watch(c.timer, timerEvent); err != nil {
		return err
	}
	for i := range n {
		cn := &conn{fd: -1, index: int32(i), speaks: speaks()}
		c.conns = append(c.conns, cn)
		if err := c.connect(cn); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the connections.
func (c *Client) Close() {
	for _, cn := range c.conns {
		cn.close()
	}
	for _, fd := range []int{c.timer, c.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// Run sends one load and returns when all of it was answered, or the grace after
// its end is over, or ctx is done. The error says that the load could not be
// sent; what servers answered is in the Result.
func (c *Client) Run(ctx context.Context, load Load) (*Result, error) {
	if load.Duration <= 0 || load.Keys == nil || load.Rate < 0 {
		return nil, fmt.Errorf("loadgen: a load needs keys, a duration above zero and a rate of zero or more: %+v", load)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadCPU()
	if err != nil {
		return nil, err
	}
	r := newRun(c, load)
	if err := r.loop(ctx); err != nil {
		return nil, fmt.Errorf("loadgen: %s: %w", c.addr, err)
	}
	after, err := threadCPU()
	if err != nil {
		return nil, err
	}
	r.result.CPU = after - before
	return r.result, nil
}

func threadCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0, fmt.Errorf("loadgen: own CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
