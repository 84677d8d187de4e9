// Package granter is the side of a lease that hands out: what a granter keeps of one key ([Counter]), or of the slots
// of one ([Slots]), and what it grants by that.
package granter

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// LeaseMemory is how long after the end of the last lease its unused units are still
// taken back: streams that have taken some last up to settle.MostStream, and holders scan their idle keys slowly.
const LeaseMemory = limit.Hour + limit.Minute

// Counter is what a granter keeps of one key. The zero value is a key never used.
//
// Invariants: 0 <= Leased <= 2*capacity, of the largest count by which it was judged; no
// unit is out on lease after OutUntil.
type Counter struct {
	State limit.State
	// Leased is the units that were handed out and did not come back: no more than these
	// can come back. For a fixed window it is those of the newest Period alone; of the window
	// that ends, what is charged can come back. Spent units count as well, because they are not reported.
	Leased int64
	Period limit.Micros
	// OutUntil is when the last lease handed out ends.
	OutUntil limit.Micros
	// Lockout is nil for a key that has had no block and no reservation.
	Lockout *limit.Lockout
	askers  Askers
}

// Acquire applies want w at now, the granter's clock, and answers it.
func (c *Counter) Acquire(l *limit.Limit, t *lease.Terms, now limit.Micros, w lease.Want) lease.Grant {
	c.settle(l, t, now, &w)
	ask := limit.Ask{Need: w.Need, Waiting: w.Waiting + w.Soon, Want: w.Want, Withheld: w.Withheld, Askers: c.askers.Count()}
	if w.Next {
		ask.Lead = limit.Micros(t.Lead+t.Interval) * limit.Millisecond
	}
	d := c.decide(l, now, ask)
	if w.Next && w.Need == 0 && d.Granted == 0 { // the next window is used up, the running one may not be
		ask.Lead = 0
		d = c.decide(l, now, ask)
	}
	if t.LongestTTL > 0 {
		d.TTL = min(d.TTL, limit.Micros(t.LongestTTL)*limit.Millisecond)
	}
	if d.Granted > 0 {
		c.out(t, now, &w, &d)
		if d.Remaining == 0 && d.StartsIn == 0 && d.Block == 0 { // the holder will reject soon, without asking before
			d.RetryAfter = l.Peek(c.State, now, 1).RetryAfter
		}
	} else if w.Need == 0 && w.Want > 0 && d.Block == 0 { // no request waits, so what matters is the next single unit
		d.RetryAfter = l.Peek(c.State, now, 1).RetryAfter
	}
	d.Reset = min(d.Reset, l.Runs(c.State.At, now)) // also where units of the next window are out
	return t.Grant(l, &w, &d, c.elsewhere(t, now))
}

// decide decides by the state and, of a limit that blocks, by the lockout.
func (c *Counter) decide(l *limit.Limit, now limit.Micros, a limit.Ask) limit.Decision {
	if !l.Blocks() {
		return l.Decide(&c.State, now, a)
	}
	if c.Lockout == nil {
		c.Lockout = new(limit.Lockout)
	}
	return l.DecideBlocking(&c.State, c.Lockout, now, a)
}

// Fit applies the part of w that asks for nothing, and reports whether its need could be
// granted. If so nothing is granted yet, else it is denied. It is the first round of a group
// (package rounds); the second is [Counter.Acquire] of [lease.Want.Asks].
func (c *Counter) Fit(l *limit.Limit, t *lease.Terms, now limit.Micros, w lease.Want) (g lease.Grant, fits bool) {
	c.settle(l, t, now, &w)
	d := c.decide(l, now, limit.Ask{Withheld: w.Withheld})
	if d.Remaining < w.Need {
		return c.Acquire(l, t, now, w.Asks()), false
	}
	d.Reset = min(d.Reset, l.Runs(c.State.At, now))
	return t.Grant(l, &lease.Want{}, &d, c.elsewhere(t, now)), true
}

// Look reads the counter. Granted is the units that were handed out and did not come back, used or not, and TTL until
// when the last lease on them ends; both are 0 when that is over. RetryAfter is until there is a unit; 0: there is one.
func (c *Counter) Look(l *limit.Limit, t *lease.Terms, now limit.Micros) lease.Grant {
	g := c.Acquire(l, t, now, lease.Want{})
	if g.Block == 0 {
		g.RetryAfter = lease.CeilMillis(l.Peek(c.State, now, 1).RetryAfter)
	}
	if c.Leased > 0 && now < c.OutUntil {
		g.Granted, g.TTL = min(c.Leased, limit.MaxCount), lease.Millis((c.OutUntil-now)/limit.Millisecond)
	}
	return g
}

// Reset empties the counter, ends a block, and looks at it. It still knows what is out on lease: what comes back of that
// makes room for as much, so that at most the limit and Granted are used up after it.
func (c *Counter) Reset(l *limit.Limit, t *lease.Terms, now limit.Micros) lease.Grant {
	if c.State = (limit.State{}); l.Blocks() {
		c.Lockout = nil
	}
	return c.Look(l, t, now)
}

// elsewhere reports whether holders other than the one that asks may have units on lease,
// which may come back soon. One holder that asks in every lease interval counts as two
// askers; if there are no more, its own units are out. If others have some and do not ask,
// the holder still asks again within longestAskAfter. For a token bucket askers are not
// counted, because nothing else needs them.
func (c *Counter) elsewhere(t *lease.Terms, now limit.Micros) bool {
	return c.Leased > 0 && now < c.OutUntil && (t.Refills || c.askers.Count() > 2)
}

// settle applies the part of a want that asks for nothing: who asks, what comes back, what
// was overdrawn.
func (c *Counter) settle(l *limit.Limit, t *lease.Terms, now limit.Micros, w *lease.Want) {
	c.askers.Note(int64(now/(limit.Micros(t.Interval)*limit.Millisecond)), w.Fresh)
	if now >= c.OutUntil+LeaseMemory {
		c.Leased = 0
	}
	if w.Unused > 0 && c.Leased > 0 && !t.Lies(w.Unused) {
		back, newest := w.Unused, t.Window == 0 || w.Lease == l.PeriodID(c.Period)
		if newest {
			back = min(back, c.Leased)
		}
		c.State, back = l.Return(c.State, now, l.PeriodFromID(now, w.Lease), back)
		if newest {
			c.Leased -= back
		}
	}
	if c.Lockout != nil && l.Blocks() && !t.Lies(w.Unused) {
		l.Settle(c.Lockout, w.Lease, w.Unused+w.Settled)
	}
	if w.Overdrawn > 0 {
		c.State = l.Charge(c.State, now, w.Overdrawn)
	}
	if w.Denied > 0 && l.ChargesRejected() {
		c.State = l.Charge(c.State, now, w.Denied) // rejected from memory, and charged all the same
	}
}

// out notes the units that the decision handed out. Units of requests that wait are
// included: they come back if another rule denies the request.
func (c *Counter) out(t *lease.Terms, now limit.Micros, w *lease.Want, d *limit.Decision) {
	if d.Period > c.Period && t.Window > 0 {
		c.Leased = 0
	}
	c.Leased = max(c.Leased, min(c.Leased+d.Granted, 2*t.Capacity)) // a larger count may have allowed more
	c.Period = max(c.Period, d.Period)
	c.OutUntil = max(c.OutUntil, now) // what comes back is taken until then and a little longer
	if d.Granted > w.Waiting+w.Soon && t.Consistency != lease.Exact {
		c.OutUntil = max(c.OutUntil, now+d.TTL)
	}
}
