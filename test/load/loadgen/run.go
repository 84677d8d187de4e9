//go:build linux

package loadgen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// maxFailed is how many failed requests end a run: the figures would mean
// nothing, and each costs a connection.
const maxFailed = 1000

// run is one load on its way.
type run struct {
	*Client
	load   Load
	begin  time.Time
	result *Result

	sent uint64  // requests sent; the next one has this number
	idle []*conn // connections without a request, used in turn
	head int     // of idle, a ring
	free int     // how many in idle
	buf  [8]byte // what the timer counted, not needed
}

func newRun(c *Client, load Load) *run {
	r := &run{Client: c, load: load, result: &Result{}, idle: make([]*conn, len(c.conns))}
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
		if err := r.sendDue(now); err != nil {
			return err
		}
		if r.over(now) || ctx.Err() != nil {
			break
		}
		if err := r.arm(now); err != nil {
			return err
		}
		n, err := unix.EpollWait(r.epoll, events, 10)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
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

// scheduled is how many requests are due by now.
func (r *run) scheduled(now time.Duration) uint64 {
	n := r.sent + uint64(r.free) // closed loop: whoever is idle is due
	if r.load.Rate > 0 {
		n = uint64(min(now, r.load.Duration-1).Seconds()*r.load.Rate) + 1
	} else if now >= r.load.Duration {
		n = r.sent
	}
	if r.load.Requests > 0 {
		n = min(n, r.load.Requests)
	}
	return n
}

// dueAt is when the request with this number is due; in a closed loop at once.
func (r *run) dueAt(number uint64, now time.Duration) time.Duration {
	if r.load.Rate == 0 {
		return now
	}
	return time.Duration(float64(number) / r.load.Rate * float64(time.Second))
}

// sendDue sends what is due on idle connections, in turn. The second half of the
// grace is for answers only.
func (r *run) sendDue(now time.Duration) error {
	if now >= r.load.Duration+grace/2 {
		return nil
	}
	for due := r.scheduled(now); r.sent < due && r.free > 0; {
		cn := r.take()
		cn.due = r.dueAt(r.sent, now)
		cn.busy = true
		r.sent++
		if err := cn.send(r.load.Keys()); err != nil {
			if err := r.fail(cn, err); err != nil {
				return err
			}
			continue
		}
		r.result.Lag.Add(now - cn.due)
	}
	return nil
}

// over reports whether the run has come to its end: nothing more to send and
// nothing on its way, or the grace spent.
func (r *run) over(now time.Duration) bool {
	if now >= r.load.Duration+grace {
		return true
	}
	done := now >= r.load.Duration && r.sent >= r.scheduled(now) || now >= r.load.Duration+grace/2 ||
		r.load.Requests > 0 && r.sent >= r.load.Requests
	return done && r.free == len(r.conns)
}

// arm sets the timer to when the next request is due, if one could be sent.
func (r *run) arm(now time.Duration) error {
	if r.load.Rate == 0 || r.free == 0 || now >= r.load.Duration {
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
	status, err := cn.receive()
	if err != nil {
		return r.fail(cn, err)
	}
	if status == 0 {
		return nil
	}
	r.result.Status[status]++
	r.result.Done++
	r.result.Latency.Add(now - cn.due)
	r.release(cn)
	return nil
}

// fail counts the request of a broken connection and opens it anew. The error
// is that there were too many, or that no connection can be had.
func (r *run) fail(cn *conn, cause error) error {
	wasBusy := cn.busy
	if wasBusy {
		r.result.Failed++
	}
	if r.result.Failed > maxFailed {
		return fmt.Errorf("%d requests failed, the last with: %w", r.result.Failed, cause)
	}
	if err := r.connect(cn); err != nil {
		return fmt.Errorf("after %w: %w", cause, err)
	}
	if wasBusy {
		r.release(cn)
	}
	return nil
}

// settle closes the books: what is still on its way has failed, what was due and
// not sent was missed.
func (r *run) settle() error {
	now := time.Since(r.begin)
	r.result.Elapsed = now
	for _, cn := range r.conns {
		if cn.busy {
			if err := r.fail(cn, errors.New("no reply within the grace")); err != nil {
				return err
			}
		}
	}
	r.result.Due = r.sent
	if r.load.Rate > 0 {
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
