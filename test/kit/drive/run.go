package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// run is one load on its way.
type run struct {
	*Client
	Pace
	begin  time.Time
	result *Result

	sent    int64         // requests sent; the next one has this number
	last    time.Duration // when something was sent or received last
	idle    []*conn       // connections without a request, used in turn
	head    int           // of idle, a ring
	free    int           // how many in idle
	refused []*conn       // could not be opened, the oldest first; they rest a little
	buf     [8]byte       // what the timer counted, not needed
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
	events := make([]unix.EpollEvent, len(r.conns)+1)
	r.begin = time.Now()
	for {
		now := time.Since(r.begin)
		if ctx.Err() != nil {
			r.Duration = min(r.Duration, now)
		}
		for len(r.refused) > 0 && now >= r.refused[0].sent+pause {
			r.release(r.refused[0])
			r.refused = r.refused[1:]
		}
		if err := r.sendDue(now); err != nil {
			return err
		}
		if r.over(now) {
			break
		}
		if err := r.arm(now); err != nil {
			return err
		}
		n, err := unix.EpollWait(r.epoll, events, 10)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		if gap := time.Since(r.begin) - now; gap >= stall {
			r.result.Stalled += gap
		}
		now = time.Since(r.begin)
		for _, event := range events[:max(n, 0)] {
			if err := r.handle(event.Fd, now); err != nil {
				return err
			}
		}
	}
	return r.settle()
}

// stall is far more than the 10 ms that a driver waits for something to read.
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

// sendDue sends what is due on idle connections, in turn.
func (r *run) sendDue(now time.Duration) error {
	if now >= r.Duration+r.late {
		return nil
	}
	for due := r.scheduled(now); r.sent < due && r.free > 0; {
		cn := r.take()
		cn.due, cn.sent, cn.busy = r.dueAt(r.sent, now), now, true
		r.sent++
		r.last = now
		if cn.fd < 0 {
			if err := r.connect(cn); err != nil {
				if err := r.fail(cn, err); err != nil {
					return err
				}
				r.refused = append(r.refused, cn)
				continue
			}
		}
		if err := cn.write(cn.speaks.request(r.keys())); err != nil {
			if err := r.fail(cn, err); err != nil {
				return err
			}
			r.release(cn)
			continue
		}
		r.result.Lag.Add(now - cn.due)
	}
	return nil
}

// over reports whether the run has come to its end: nothing more to send and
// nothing on its way, or the grace spent.
func (r *run) over(now time.Duration) bool {
	idle := r.free+len(r.refused) == len(r.conns)
	if now >= r.Duration+r.grace || !idle && now-r.last >= patience {
		return true
	}
	return idle && (now >= r.Duration && r.sent >= r.scheduled(now) || now >= r.Duration+r.late ||
		r.Requests > 0 && r.sent >= r.Requests)
}

// arm sets the timer to when the next request is due, if one could be sent.
func (r *run) arm(now time.Duration) error {
	if r.Rate == 0 || r.free == 0 || now >= r.Duration {
		return nil
	}
	wait := max(r.dueAt(r.sent, now)-now, 1)
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
	if err := unix.TimerfdSettime(r.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	return nil
}

// handle takes one event: the timer, whose expiry loop looks after, or a
// connection with something to read.
func (r *run) handle(mark int32, now time.Duration) error {
	if mark == timerEvent {
		_, err := unix.Read(r.timer, r.buf[:])
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("timerfd: %w", err)
		}
		return nil
	}
	cn := r.conns[mark]
	if cn.fd < 0 {
		return nil // an event from before it was closed
	}
	status, err := cn.receive()
	if err != nil {
		if !cn.busy { // the server has closed an idle connection
			cn.close()
			return nil
		}
		err = r.fail(cn, err)
		r.release(cn)
		return err
	}
	if status == 0 {
		return nil
	}
	r.result.Status[status]++
	r.result.Done++
	r.result.Latency.Add(now - cn.due)
	r.result.Slowest = max(r.result.Slowest, now-cn.sent)
	if r.slow > 0 && now-cn.sent > r.slow {
		r.result.Slow++
	}
	if r.seconds {
		r.result.count(r.begin.Add(cn.sent), r.begin.Add(now), status == 200)
		r.result.took(r.begin.Add(cn.sent), now-cn.due)
	}
	r.last = now
	r.release(cn)
	return nil
}

// fail counts a request that gets no answer, and closes its connection. The error is that
// there were too many.
func (r *run) fail(cn *conn, cause error) error {
	cn.close()
	cn.busy = false
	if r.result.Failed++; r.result.FirstError == nil {
		r.result.FirstError = cause
	}
	if r.seconds {
		sent := r.begin.Add(cn.sent)
		r.result.count(sent, sent, false)
	}
	if r.result.Failed > r.failures {
		return fmt.Errorf("%d requests failed, the last with: %w", r.result.Failed, cause)
	}
	return nil
}

// settle counts what is still on its way as failed, and what was due and not sent as
// missed.
func (r *run) settle() error {
	now := time.Since(r.begin)
	r.result.Elapsed = now
	for _, cn := range r.conns {
		if cn.busy {
			if err := r.fail(cn, errors.New("no reply in time")); err != nil {
				return err
			}
		}
	}
	r.result.Due = r.sent
	if r.Rate > 0 {
		r.result.Due = max(r.scheduled(now), r.sent)
	}
	r.result.Missed = r.result.Due - r.sent
	return nil
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
