package front

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// cached is what is kept of a key, under its shard's lock.
type cached struct {
	node    lease.Relay
	budget  budget
	waiting []waiter     // for the reply to an ask that is out, or for a place in the next
	out     int          // asks that are out
	used    lease.Millis // when it was asked for last
	due     reason       // why it is on the agenda; none: it is not
	dueAt   lease.Millis // when it is due
	heard   lease.Millis // when the last reply arrived; 0: never
	away    lease.Millis // the store did not answer: it is not asked before then
	back    []part       // to be given back with the next asks
	guests  *guests      // requests that bring another count; nil: none did
}

// busy reports whether somebody holds on to the entry.
func (c *cached) busy() bool {
	return len(c.waiting) > 0 || c.out > 0 || c.guests.wait() || c.due != none || len(c.back) > 0
}

// spare is what is left here of a key, beside what is left above.
func (c *cached) spare(t *lease.Terms, now lease.Millis) int64 {
	slot := &c.node.Account
	return slot.Held(t, now) + c.node.Back
}

// wait puts an ask, whose give-backs are settled, in line for its key. If no ask
// of the key is out, this call sends one, or the agenda does when there may be one
// again. Who has not the time for that is refused: that the key is asked for too
// often is no failure of the store, by which on_failure would let a flood pass.
// While the store is away nobody waits.
func (c *call) wait(shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask, i int) {
	c.waitUntil(c.ends, c.expect, shard, e, a, i)
}

// waitUntil is wait for somebody who leaves at ends. expect is told if it waits.
func (c *call) waitUntil(ends lease.Millis, expect func(int) *reply, shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask, i int) {
	v := &e.Value
	if v.out == 0 && c.now < v.away {
		c.unavailable(i)
		return
	}
	free := v.out == 0 && len(v.waiting) == 0
	delay := v.asksIn(c.now, a.Policy, a.Want.Need)
	if v.out == 0 && tooLate(c.now, delay, ends) {
		c.grants[i] = v.hurried(c.now, a.Policy, a.Want.Need, delay)
		c.answered(lease.Refuse)
		return
	}
	w := waiter{want: onlyAsk(a.Want), reply: expect(i), at: i, ends: ends}
	if free && delay == 0 {
		c.asking().ask(c.now, shard, e, []waiter{w}, lease.NoAsk, 0)
		return
	}
	v.waiting = append(v.waiting, w)
	if v.out == 0 {
		c.store.due.add(c.now, shard, e, waited)
	}
}

// tooLate reports whether an ask that is sent after a delay is answered too late
// for who leaves at ends: it keeps half of the time for the answer, 20 ms at most.
func tooLate(now, delay, ends lease.Millis) bool {
	left := ends - now
	return delay > 0 && delay+min(left/2, 20) >= left
}

// asksIn is how long until the key may be asked for, for somebody who waits. Who fits
// need not wait, see [budget.allow].
func (c *cached) asksIn(now lease.Millis, p *limiter.Policy, need int64) lease.Millis {
	pace := c.pace(now, p)
	if c.fits(now, p, need) {
		c.budget.allow(now, pace)
		if c.due == waited && c.dueAt > now {
			c.due = none
		}
	}
	if c.due == waited {
		return max(0, c.dueAt-now)
	}
	return c.budget.wait(now, pace, 0)
}

// fits reports whether a need is within what the last reply left above and the node would
// give back for it.
func (c *cached) fits(now lease.Millis, p *limiter.Policy, need int64) bool {
	slot, left := &c.node.Account, c.node.Account.Left
	if now >= slot.Reset {
		left = p.Terms.Capacity
	}
	return need > 0 && need <= left+slot.Held(&p.Terms, now)+c.node.Back
}

// hurried refuses an ask that has not the time to wait until its key may be asked
// for.
func (c *cached) hurried(now lease.Millis, p *limiter.Policy, need int64, delay lease.Millis) lease.Grant {
	slot := &c.node.Account
	if p.Terms.ChargesDenied {
		slot.Deny(&p.Terms, now, need)
	}
	need = max(need, 1)
	after := delay
	if slot.Left < need {
		after = max(after, slot.Retry(&p.Terms, now, need))
	}
	return lease.Grant{
		Status: lease.Denied, RetryAfter: after, AskAfter: delay,
		Limit: p.Terms.Capacity, Remaining: slot.Left, Reset: max(0, slot.Reset-now),
	}
}
