package leasecache

import (
	"context"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/telemetry"
)

// waiter is an ask that waits for its grant.
type waiter struct {
	want    lease.Want
	answers *answers
	at      int // index of the grant
}

// wait lets an ask wait for its key; its give-backs are settled. If no ask of the key is
// out, this call sends one for all that wait. While the store does not answer nobody waits.
func (q *acquisition) wait(k key, a *engine.Ask, i int) {
	v := &k.Value
	if v.out == 0 && q.now < v.pause {
		q.unavailable(i)
		return
	}
	w := waiter{want: onlyAsk(a.Want), answers: q.await(i), at: i}
	q.store.waited.Add(uint64(a.Want.Waiting))
	switch {
	case v.out > 0:
		v.waiting = append(v.waiting, w)
	case len(v.waiting) == 0:
		q.asking().ask(q.now, k, []waiter{w}, holder.NoAsk, 0)
	default: // others wait for their turn
		v.waiting = append(v.waiting, w)
		k.schedule(q.now, waited)
	}
}

// takeQueue takes those who wait and can be asked for together: all for the running
// window, or all for the next. Those who have gone are left out.
func (c *cached) takeQueue() (queue []waiter) {
	rest := c.waiting[:0]
	for _, w := range c.waiting {
		switch {
		case w.answers.gone():
		case len(queue) == 0 || queue[0].want.Next == w.want.Next:
			queue = append(queue, w)
		default:
			rest = append(rest, w)
		}
	}
	c.keepWaiting(rest)
	return queue
}

// keepWaiting keeps those who still wait: the first part of the queue. An empty queue keeps no memory.
func (c *cached) keepWaiting(rest []waiter) {
	clear(c.waiting[len(rest):])
	if c.waiting = rest; len(rest) == 0 {
		c.waiting = nil
	}
}

// onlyAsk is a want without what has been settled already.
func onlyAsk(w lease.Want) lease.Want {
	return lease.Want{Need: w.Need, Waiting: w.Waiting, Want: w.Want, Next: w.Next && w.Want > 0}
}

// await notes that grant i comes later.
func (q *acquisition) await(i int) *answers {
	if q.answers == nil {
		q.answers = &answers{grants: q.grants, spans: telemetry.Waiting(q.ctx), done: make(chan struct{}), missing: 1}
	}
	q.answers.expect(i)
	return q.answers
}

// answers are the grants that a caller waits for.
type answers struct {
	done  chan struct{}           // closed when none is missing
	spans []telemetry.SpanContext // that trace the caller; nil: none

	mu      sync.Mutex
	grants  []lease.Grant // the caller's; nil when it has gone
	missing int           // and one more until the caller has made all its asks
}

// expect notes that grant i comes later.
func (r *answers) expect(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants[i] = lease.Grant{Status: lease.Unavailable}
	r.missing++
}

// answer hands over a grant. It is false if the caller has gone.
func (r *answers) answer(i int, g lease.Grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grants == nil {
		return false
	}
	r.grants[i] = g
	r.arrived()
	return true
}

func (r *answers) arrived() {
	if r.missing--; r.missing == 0 {
		close(r.done)
	}
}

// gone reports whether the caller has left.
func (r *answers) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants == nil
}

// wait returns when nothing is missing, or ctx ends. The caller is gone then.
func (r *answers) wait(ctx context.Context) {
	r.mu.Lock()
	r.arrived()
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.grants = nil
	r.mu.Unlock()
}
