package drive

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Load is what a test offers. One of Count and Until must be given, so that every load
// ends.
type Load struct {
	// Addrs are the servers.
	Addrs []string
	// Conns is the number of connections to each server; 0 means 8, enough for
	// every worker thread of an Envoy to get some.
	Conns int
	// Request appends the request number n, counted from 0 over all connections,
	// to buf. See [Get].
	Request func(buf []byte, n int64) []byte
	// Count ends the load after that many requests; 0: no such end.
	Count int64
	// Until ends the load: no request is sent at or after it.
	Until time.Time
	// PerSecond bounds the requests per second of all connections together; 0
	// sends as fast as the answers come.
	PerSecond float64
}

// Get returns a Load.Request that asks for path again and again. Headers come in
// pairs of name and value.
func Get(path string, headers ...string) func([]byte, int64) []byte {
	request := []byte("GET " + path + " HTTP/1.1\r\nhost: pop\r\n")
	for i := 0; i+1 < len(headers); i += 2 {
		request = append(request, headers[i]+": "+headers[i+1]+"\r\n"...)
	}
	request = append(request, "\r\n"...)
	return func(buf []byte, _ int64) []byte { return append(buf, request...) }
}

// GetEach returns a Load.Request that gives every request a value of its own in
// the header name: prefix and a number.
func GetEach(path, name, prefix string) func([]byte, int64) []byte {
	start := "GET " + path + " HTTP/1.1\r\nhost: pop\r\n" + name + ": " + prefix
	return func(buf []byte, n int64) []byte {
		buf = append(buf, start...)
		buf = strconv.AppendInt(buf, n, 10)
		return append(buf, "\r\n\r\n"...)
	}
}

// Run offers the load until it ends or ctx does. A connection that breaks is opened
// again for the next request.
func Run(ctx context.Context, l Load) (*Result, error) {
	p := Pace{Duration: endless, Requests: l.Count, Rate: l.PerSecond}
	if !l.Until.IsZero() {
		if p.Duration = time.Until(l.Until); p.Duration <= 0 {
			return &Result{}, nil
		}
	} else if l.Count == 0 {
		return nil, errors.New("drive: Load needs Count or Until, or it would never end")
	}
	if l.Conns == 0 {
		l.Conns = 8
	}
	c, err := newClient(l.Addrs, Each(), l.Conns, func() protocol { return &http1{each: l.Request} })
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.seconds = true
	return c.Run(ctx, p)
}

// endless is as good as no end.
const endless = 1 << 62 * time.Nanosecond
