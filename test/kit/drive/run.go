package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

type run struct {
	*Client
	Pace
	begin  time.Time
	result *Result

	sent     int64         // requests sent; the next one has this number
	last     time.Duration // when something was sent or received last
	idle     []*conn       // connections without a request, used in turn
	head     int           // of idle, a ring
	free     int           // how many in idle
	rejected []*conn       // could not be opened, the oldest first; they rest a little
}

func newRun(c *Client, p Pace) *run {
	r := &run{Client: c, Pace: p, result: &Result{}, idle: make([]*conn, len(c.conns))}
	if c.seconds {
		r.result.Seconds = map[int64]Second{}
	}
	for _, cn := range c.conns {
		r.release(cn)
	}
	return r
}

// loop sends what is due, waits for replies or for the next request to be due,
// and ends when nothing is left to send and nothing on its way.
func (r *run) loop(ctx context.Context) error {
	events := make([]unix.EpollEvent, len(r.conns))
	r.begin = time.Now()
	for {
		now := time.Since(r.begin)
		if ctx.Err() != nil {
			r.Duration = min(r.Duration, now)
		}
		for len(r.rejected) > 0 && now >= r.rejected[0].sent+pause {
			r.release(r.rejected[0])
			r.rejected = r.rejected[1:]
		}
		r.sendDue(now)
		if r.over(now) {
			break
		}
		wait := unix.NsecToTimespec(int64(r.untilDue(now)))
		_, err := unix.Ppoll([]unix.PollFd{{Fd: int32(r.epoll), Events: unix.POLLIN}}, &wait, nil) // epoll_wait sleeps in whole milliseconds
		n := 0
		if err == nil {
			n, err = unix.EpollWait(r.epoll, events, 0)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		if gap := time.Since(r.begin) - now; gap >= stall {
			r.result.Stalled += gap
		}
		now = time.Since(r.begin)
		for _, event := range events[:max(n, 0)] {
			r.handle(r.conns[event.Fd], now)
		}
	}
	r.settle()
	return nil
}

// lull is how long a driver waits at most for something to read, and stall is far more.
const lull = 10 * time.Millisecond
const stall = 100 * time.Millisecond

// pause is how long a connection rests that could not be opened.
const pause = 10 * time.Millisecond

// scheduled is how many requests are due by now.
func (r *run) scheduled(now time.Duration) int64 {
	n := r.sent + int64(r.free) // closed loop: an idle connection is due
	if r.Rate > 0 {
		n = int64(min(now, r.Duration-1).Seconds()*r.Rate) + 1
	} else if now >= r.Duration {
		n = r.sent
	}
	if r.Requests > 0 {
		n = min(n, r.Requests)
	}
	return n
}

// dueAt is when the request with this number is due; in a closed loop at once.
func (r *run) dueAt(number int64, now time.Duration) time.Duration {
	if r.Rate == 0 {
		return now
	}
	return time.Duration(float64(number) / r.Rate * float64(time.Second))
}

// untilDue is how long to wait for something to read: until the next request is due, if one
// could be sent.
func (r *run) untilDue(now time.Duration) time.Duration {
	if r.Rate == 0 || r.free == 0 || now >= r.Duration {
		return lull
	}
	return min(max(r.dueAt(r.sent, now)-now, 0), lull)
}

// sendDue sends what is due on idle connections, in turn.
func (r *run) sendDue(now time.Duration) {
	if now >= r.Duration {
		return
	}
	for due := r.scheduled(now); r.sent < due && r.free > 0; {
		cn := r.take()
		cn.due, cn.sent, cn.busy = r.dueAt(r.sent, now), now, true
		r.sent++
		r.last = now
		if cn.fd < 0 {
			if err := r.connect(cn); err != nil {
				r.fail(cn, err)
				r.rejected = append(r.rejected, cn)
				continue
			}
		}
		if err := cn.write(cn.speaks.request(r.keys())); err != nil {
			r.fail(cn, err)
			r.release(cn)
		}
	}
}

// over reports whether the run has come to its end: nothing more to send and
// nothing on its way, or its patience is at an end.
func (r *run) over(now time.Duration) bool {
	if r.free+len(r.rejected) < len(r.conns) { // something is on its way
		return now >= r.Duration+patience || now-r.last >= patience
	}
	return now >= r.Duration || r.Requests > 0 && r.sent >= r.Requests
}

// handle reads what has come on a connection.
func (r *run) handle(cn *conn, now time.Duration) {
	if cn.fd < 0 {
		return // an event from before it was closed
	}
	status, err := cn.receive()
	switch {
	case err != nil && !cn.busy: // the server has closed an idle connection
		cn.close()
	case err != nil:
		r.fail(cn, err)
		r.release(cn)
	case status != 0:
		r.answered(cn, status, now)
		r.release(cn)
	}
}

func (r *run) answered(cn *conn, status int, now time.Duration) {
	r.result.Status[status]++
	r.result.Done++
	r.result.Latency = append(r.result.Latency, uint32(max(now-cn.due, 0)/time.Microsecond))
	r.result.Slowest = max(r.result.Slowest, now-cn.sent)
	if r.seconds {
		r.result.count(r.begin.Add(cn.sent), r.begin.Add(now), status == 200)
	}
	r.last = now
}

// fail counts a request that gets no answer, and closes its connection.
func (r *run) fail(cn *conn, cause error) {
	cn.close()
	cn.busy = false
	if r.result.Failed++; r.result.FirstError == nil {
		r.result.FirstError = cause
	}
	if r.seconds {
		sent := r.begin.Add(cn.sent)
		r.result.count(sent, sent, false)
	}
}

// settle counts what is still on its way as failed.
func (r *run) settle() {
	r.result.Elapsed = time.Since(r.begin)
	for _, cn := range r.conns {
		if cn.busy {
			r.fail(cn, errors.New("no reply in time"))
		}
	}
	r.result.Due = r.sent
	if r.Rate > 0 {
		r.result.Due = max(r.scheduled(r.result.Elapsed), r.sent)
	}
}

func (r *run) take() *conn {
	cn := r.idle[r.head]
	r.head = (r.head + 1) % len(r.idle)
	r.free--
	return cn
}

func (r *run) release(cn *conn) {
	cn.busy = false
	r.idle[(r.head+r.free)%len(r.idle)] = cn
	r.free++
}
