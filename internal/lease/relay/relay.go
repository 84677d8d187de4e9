// Package relay is a tier in the middle: a holder of leases and a granter of them. It is the only
// place that knows how far its granter is (distance.go).
package relay

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

// Relay is a holder of leases of its granter, and the granter of its children. It cuts the leases of its children out of its
// own leases, so that a child's lease ends before the lease that it was cut from, and is not larger. Both roles use the
// same clock.
//
// Invariant: the units of a lot that children hold, plus the units left in the lot, are at most the units granted.
type Relay struct {
	Holder holder.State
	// Back is how many more units the owner of the relay gives back to its granter, before its next ask or with it.
	Back int64
	distance

	askers granter.Askers
	lent   [2]lent // of the running window and the next
}

// Acquire answers a child's want from the relay's own leases, or from a denial that it remembers. With [holder.Wait] there is
// no answer yet: the caller keeps the want, asks its granter ([Relay.Ask]) and answers it from the reply ([Relay.Apply]).
// Acquire settles the units that the want gives back, so a want must not be applied twice. The returned part belongs to a
// lease that the relay no longer holds, and the caller gives it back to the granter.
// Acquire does not read the debt of the want. The caller passes it on under the child's name, and the child repeats it
// until the counter has acknowledged it.
func (r *Relay) Acquire(t *lease.Terms, now lease.Millis, w lease.Want) (lease.Grant, holder.Verdict, holder.Part) {
	r.askers.Note(int64(now/t.Interval), w.Fresh)
	back := r.settle(t, now, w)
	r.Back += back.Units
	if w.Want > 0 {
		g, ok := r.cut(t, now, w, quartersToCut) // nearly always: nothing is copied twice
		if !ok && t.Aggregator {
			g, ok = r.cut(t, now, w, 0)
		}
		if ok {
			r.Back -= back.Units
			return g, holder.Admit, back
		}
	}
	g, v := r.answer(t, now, w)
	r.Back -= back.Units
	return g, v, back
}

// answer answers a want that was not cut from a lease.
func (r *Relay) answer(t *lease.Terms, now lease.Millis, w lease.Want) (lease.Grant, holder.Verdict) {
	if w.Want == 0 {
		return r.report(t, now), holder.Admit
	}
	offers := r.offers(t, now, w)
	if offers && t.Consistency == lease.Exact || !r.rejects(t, now, w) {
		return lease.Grant{}, holder.Wait
	}
	if !t.Aggregator { // else that was tried before
		if g, ok := r.cut(t, now, w, 0); ok {
			return g, holder.Admit
		}
	}
	if offers {
		return lease.Grant{}, holder.Wait
	}
	if t.Consistency != lease.Exact { // takeExact has noted it for an exact rule
		r.Holder.Deny(t, now, w.Denies(t))
	}
	r.Holder.Rejected = r.Holder.Rejected || w.Need > 0
	return r.rejection(t, now, w), holder.Reject
}

// Prefetch decides whether to ask the granter although no child waits. An exact rule never does.
func (r *Relay) Prefetch(t *lease.Terms, now lease.Millis) holder.Asks {
	if t.Consistency == lease.Exact {
		return holder.NoAsk
	}
	if t.Aggregator {
		return r.prefetchOfAggregator(t, now)
	}
	return r.Holder.Prefetch(t, now)
}

// Ask makes the want to send to the granter for the waiting wants of children, oldest first. With an empty queue it tops up the relay
// itself. Either all wants of the queue are for the next window, or none. The need is the smallest of the queue, so that a
// large need is not the reason to deny a small one.
func (r *Relay) Ask(t *lease.Terms, now lease.Millis, queue []lease.Want, behind holder.Asks) lease.Want {
	var need, waiting, want int64
	for _, c := range queue {
		if c.Need > 0 && (need == 0 || c.Need < need) {
			need = c.Need
		}
		if c.Next {
			behind = holder.Ahead
		}
		waiting += c.Waiting
		want += c.Want
	}
	r.measure(t, now, waiting)
	ask := r.Holder.Ask
	if t.Aggregator {
		ask = r.askAggregator
	}
	w := ask(t, now, need, waiting, behind)
	w.Want = max(w.Want, want)
	return w
}

// Apply takes the reply to w, which was asked for queue, and writes the answer to each want of queue into grants, which has
// the same length. A child that gets nothing is denied as the relay was. The caller gives the returned part back to the granter.
func (r *Relay) Apply(t *lease.Terms, now, sent lease.Millis, w lease.Want, g lease.Grant, jitter lease.Percent, queue []lease.Want, grants []lease.Grant) holder.Part {
	if g.Status != lease.OK && g.Status != lease.Denied {
		r.Holder.Asking = r.Holder.Asking && w.Want == 0
		if t.Consistency == lease.Exact { // nobody knows any more
			r.Holder.Phase = holder.PhaseNone
		}
		for i := range grants {
			grants[i] = lease.Grant{Status: g.Status}
		}
		return holder.Part{}
	}
	left := g.Granted
	ends := r.closed(t, now, sent+g.TTL, g)
	stated := g
	if t.Consistency != lease.Optimistic && g.StartsIn == 0 { // see report
		stated.Remaining = max(g.Remaining, min(g.Remaining+r.Holder.Held(t, now)+r.Back, t.Capacity))
	}
	atOnce := t.SpentAtOnce(w, g)
	var waiting int64
	for _, c := range queue {
		waiting += c.Waiting
	}
	for i, c := range queue {
		waiting -= c.Waiting
		ahead := left - waiting
		if !t.Refills {
			ahead = min(ahead, left/(2*int64(len(queue)-i)))
		}
		if atOnce {
			ahead = 0
		}
		grants[i] = answerQueued(t, now, ends, &w, c, stated, left, ahead)
		stated.Block = min(stated.Block, limit.Blocked) // so that it is counted once
		left -= grants[i].Granted
		r.lend(t, now, g.Lease, grants[i].Granted, ends)
	}
	var back holder.Part
	if t.Consistency != lease.Exact && !atOnce && now < ends { // it will be kept
		back = r.evict(now, left)
	}
	g.TTL = ends - sent
	if rest := r.Holder.Apply(t, now, sent, w, g, left, jitter); rest.Units > 0 {
		back = rest
	}
	if t.Aggregator {
		r.heardAggregator(t, now, sent, w, g, jitter)
		r.close(t, now)
	}
	for i, c := range queue {
		if grants[i].Status != lease.Denied {
			continue
		}
		if g, ok := r.cut(t, now, c, 0); ok { // what is left of an old lease is better than nothing
			grants[i] = g
		}
	}
	r.penalize(t, now, w, g, queue, grants)
	return back
}

// penalize charges the denied needs of a queue if the rule charges rejected requests, except the need that the granter has
// charged.
func (r *Relay) penalize(t *lease.Terms, now lease.Millis, w lease.Want, g lease.Grant, queue []lease.Want, grants []lease.Grant) {
	if !t.ChargesRejected {
		return
	}
	var units int64
	for i, c := range queue {
		if grants[i].Status == lease.Denied {
			units += c.Need
		}
	}
	if g.Status == lease.Denied {
		units -= w.Need
	}
	r.Holder.Deny(t, now, units)
}

// evict makes room for a new lease of so many units if both lots hold some. Of the lots that are not for the next window,
// the one with fewer units goes back. A want did not find enough in the old lots: without the new lease, the next want
// would have to ask again.
func (r *Relay) evict(now lease.Millis, units int64) holder.Part {
	a, b := &r.Holder.Leases[0], &r.Holder.Leases[1]
	if units == 0 || r.Holder.Place(now) >= 0 {
		return holder.Part{}
	}
	if a.From > now || b.From <= now && b.Units < a.Units {
		a = b
	}
	if a.From > now || a.Units >= units {
		return holder.Part{}
	}
	back := a.Part()
	*a = holder.Lease{}
	return back
}

// Retries reports whether to ask again at once for a want that was denied, because the relay has more units to give back than
// it sent with the ask. A denial that was charged is final.
func (r *Relay) Retries(t *lease.Terms, now lease.Millis, w lease.Want) bool {
	return !t.ChargesRejected && r.offers(t, now, w)
}

// answerQueued answers a queued want from the units that are left of the reply to w. The want gets the units that wait, or
// ahead if that is more.
func answerQueued(t *lease.Terms, now, ends lease.Millis, w *lease.Want, c lease.Want, g lease.Grant, left, ahead int64) lease.Grant {
	granted := min(c.Want, left, max(c.Waiting, ahead))
	if granted < max(c.Need, 1) {
		if g.Granted > 0 {
			g.AskAfter = t.Interval
		}
		g.RetryAfter = holder.RetryAfter(t, w, &g, max(c.Need, 1))
		g.Status, g.Granted, g.StartsIn, g.TTL = lease.Denied, 0, 0, 0
		if t.Consistency != lease.Optimistic {
			g.Remaining += left
		}
		return g
	}
	g.Status, g.Granted = lease.OK, granted
	g.TTL = max(0, ends-now-1)
	if t.Consistency != lease.Optimistic {
		g.Remaining += left - granted
	}
	g.AskAfter = 0
	if g.Remaining > 0 || g.StartsIn > 0 {
		g.RetryAfter = 0
	}
	return g
}

// settle takes the units that a child gives back, at most as many as the relay has lent of that lease, and can lend them
// again until the lease ends. It returns units of a lease that this relay has not lent ([Relay.lend]): another relay lent
// them, the rule is exact, or they are tokens of a bucket. The granter above limits those.
func (r *Relay) settle(t *lease.Terms, now lease.Millis, w lease.Want) holder.Part {
	r.Holder.Deny(t, now, w.Denied)
	units := w.Unused
	if units == 0 || t.Lies(units) {
		return holder.Part{}
	}
	l := r.lentOf(now, w.Lease)
	if l == nil {
		return holder.Part{Units: units, Lease: w.Lease, Expiry: now}
	}
	return r.TakeBack(t, now, holder.Part{Units: min(units, l.units), Lease: w.Lease})
}

// TakeBack settles units that were lent and did not arrive. The caller counts them, so they are not limited. The caller gives
// the returned part back to the granter.
func (r *Relay) TakeBack(t *lease.Terms, now lease.Millis, p holder.Part) holder.Part {
	if l := r.lentOf(now, p.Lease); l != nil {
		l.units = max(0, l.units-p.Units)
	}
	p.Expiry = now
	if p.Units == 0 || t.Refills {
		return p
	}
	for i := range r.Holder.Leases {
		if lot := &r.Holder.Leases[i]; lot.Lease == p.Lease && lot.Expiry > 0 && !lot.Local {
			lot.Units += p.Units
			return holder.Part{}
		}
	}
	return p
}

// rejects reports whether a want that no lot answers is over the limit by the last reply of the granter. A want of an exact rule
// is over the limit only while a denial lasts.
func (r *Relay) rejects(t *lease.Terms, now lease.Millis, w lease.Want) bool {
	need := max(w.Need, 1)
	if t.Consistency == lease.Exact {
		return r.Holder.Take(t, now, need).Verdict == holder.Reject
	}
	if w.Need == 0 && r.Holder.UnderWay(t, now) {
		return true
	}
	return r.Holder.Rejects(t, now, need)
}

// offers reports whether a need fits into the units that its granter will have after the relay has given back its own
// units and those on their way. It is false for a cross-region relay, because no request waits for that.
func (r *Relay) offers(t *lease.Terms, now lease.Millis, w lease.Want) bool {
	back := r.Back + r.Holder.Held(t, now)
	switch {
	case back == 0 || w.Need == 0 || t.Aggregator && t.Consistency != lease.Exact:
		return false
	case t.Consistency == lease.Exact:
		return w.Need-back < r.Holder.Least
	}
	return !r.Holder.Rejects(t, now, w.Need-back)
}

// rejection denies a want for which the relay may not ask now. The child may ask again after a lease interval, when other
// children may have given units back, or the relay may have a new lease.
func (r *Relay) rejection(t *lease.Terms, now lease.Millis, w lease.Want) lease.Grant {
	g := r.report(t, now)
	g.Status = lease.Denied
	g.RetryAfter = r.Holder.Retry(t, now, max(w.Need, 1))
	if r.Holder.Blocked() {
		g.Block = limit.Blocked
	}
	g.AskAfter = t.Interval
	if t.Window > 0 { // not beyond the end of the window
		g.AskAfter = min(g.AskAfter, g.RetryAfter)
	}
	return g
}

// report is an empty grant with the state of the counter by the last reply. While a debt of the relay itself is not
// acknowledged, it reports that nothing is left.
func (r *Relay) report(t *lease.Terms, now lease.Millis) lease.Grant {
	g := lease.Grant{Status: lease.OK, Limit: t.Capacity, Reset: max(0, r.Holder.Reset-now)}
	switch {
	case r.Holder.Overdrawn > 0:
		if t.Refills {
			g.Reset += lease.Millis(float64(r.Holder.Overdrawn) * t.Unit)
		}
	case t.Consistency == lease.Optimistic: // its children overdraw by Remaining, which takes from the counter, not from the lots
		g.Remaining = r.Holder.Left
	default:
		g.Remaining = min(r.Holder.Left+r.Holder.Held(t, now)+r.Back, t.Capacity)
	}
	return g
}

// DebtReplied takes the reply to a child's debt that was passed on.
func (r *Relay) DebtReplied(t *lease.Terms, now lease.Millis, above lease.Grant) {
	if above.Status == lease.OK || above.Status == lease.Denied {
		r.Holder.Apply(t, now, now, lease.Want{}, above, 0, 100)
	}
}

// Forget is [holder.State.Forget].
func (r *Relay) Forget() {
	r.askAt = 0
	r.Holder.Forget()
}

// Idle reports whether the relay may be evicted: its account is idle, and no lease that it has cut still runs. A new relay
// would take back only units that it has cut itself.
func (r *Relay) Idle(t *lease.Terms, now lease.Millis) bool {
	return r.Holder.Idle(t, now) && !r.lends(now) && (!t.Aggregator || now >= r.Holder.Asked+idleMemory)
}
