// Package drive offers load over HTTP/1.1 and tallies the answers. It is a closed
// loop: each connection sends its next request when the last was answered, so an
// overloaded machine is offered less, not flooded.
//
// It reads and writes the wire itself. A request costs a few microseconds of
// processor time instead of the fifty of net/http, which on a small machine would
// be most of what the test measures.
package drive

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Load says what to offer. One of Count and Until must be given, so that every
// load ends.
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

// Tally is what came back. Status counts the answers; Failed those requests that
// got none (connection refused or closed), of which FirstError is one.
type Tally struct {
	Status map[int]int64
	// Seconds tells by the second (Unix time) in which they were sent how many
	// requests there were, and how many of these were answered with 200.
	Seconds    map[int64]Second
	Failed     int64
	FirstError error
	Slowest    time.Duration // of all answers
	Took       time.Duration // from the first request to the last answer
}

// Second is a second's part of a [Tally].
type Second struct{ Sent, OK int64 }

func newTally() Tally {
	return Tally{Status: map[int]int64{}, Seconds: map[int64]Second{}}
}

// Sent is the number of requests that were sent.
func (t Tally) Sent() int64 {
	n := t.Failed
	for _, c := range t.Status {
		n += c
	}
	return n
}

// OK is the number of answers with status 200.
func (t Tally) OK() int64 { return t.Status[200] }

// Other is the number of requests that were answered with none of the statuses,
// or not at all.
func (t Tally) Other(statuses ...int) int64 {
	n := t.Sent()
	for _, s := range statuses {
		n -= t.Status[s]
	}
	return n
}

// PerSecond is the rate at which the load was offered.
func (t Tally) PerSecond() float64 { return float64(t.Sent()) / t.Took.Seconds() }

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

// Run offers the load until it ends or ctx does.
func Run(ctx context.Context, l Load) (Tally, error) {
	if l.Count == 0 && l.Until.IsZero() {
		return Tally{}, errors.New("drive: Load needs Count or Until, or it would never end")
	}
	if l.Conns == 0 {
		l.Conns = 8
	}
	r := run{Load: l, ctx: ctx, start: time.Now()}
	var conns sync.WaitGroup
	tallies := make([]Tally, len(l.Addrs)*l.Conns)
	for i := range tallies {
		conns.Go(func() { tallies[i] = r.connection(l.Addrs[i%len(l.Addrs)]) })
	}
	conns.Wait()
	total := newTally()
	total.Took = time.Since(r.start)
	for _, t := range tallies {
		total.add(t)
	}
	return total, nil
}

func (t *Tally) add(o Tally) {
	for s, n := range o.Status {
		t.Status[s] += n
	}
	for at, s := range o.Seconds {
		sum := t.Seconds[at]
		t.Seconds[at] = Second{sum.Sent + s.Sent, sum.OK + s.OK}
	}
	t.Failed += o.Failed
	t.Slowest = max(t.Slowest, o.Slowest)
	if t.FirstError == nil {
		t.FirstError = o.FirstError
	}
}

// run is one load in progress, shared by its connections.
type run struct {
	Load
	ctx   context.Context
	start time.Time
	next  atomic.Int64 // number of the next request
}

// take returns the number of the next request and whether there is one.
func (r *run) take() (int64, bool) {
	n := r.next.Add(1) - 1
	if r.Count > 0 && n >= r.Count {
		return 0, false
	}
	if r.PerSecond > 0 {
		due := r.start.Add(time.Duration(float64(n) / r.PerSecond * float64(time.Second)))
		select {
		case <-time.After(time.Until(due)):
		case <-r.ctx.Done():
		}
	}
	if !r.Until.IsZero() && !time.Now().Before(r.Until) {
		return 0, false
	}
	return n, r.ctx.Err() == nil
}

// connection sends requests one after the other, on a new connection after an
// error.
func (r *run) connection(addr string) Tally {
	t := newTally()
	var c conn
	defer c.close()
	var buf []byte
	for {
		n, more := r.take()
		if !more {
			return t
		}
		buf = r.Request(buf[:0], n)
		sent := time.Now()
		status, err := c.exchange(addr, buf)
		if err != nil {
			c.close()
		}
		t.count(sent, status, err)
	}
}

func (t *Tally) count(sent time.Time, status int, err error) {
	second := t.Seconds[sent.Unix()]
	second.Sent++
	if err != nil {
		t.Failed++
		if t.FirstError == nil {
			t.FirstError = err
		}
	} else {
		t.Status[status]++
		t.Slowest = max(t.Slowest, time.Since(sent))
		if status == 200 {
			second.OK++
		}
	}
	t.Seconds[sent.Unix()] = second
}
