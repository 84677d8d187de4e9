// Package relay is a tier in the middle: a holder of the tier above and the granter of the tier below. It is the only
// place that knows how far the tier above is (distance.go).
package relay

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// Relay is a tier in the middle: a holder of the tier above and the granter of
// the tier below. It cuts leases for its children out of its own, so a child's
// lease never outlives, nor exceeds, the one it was cut from. Its clock is one
// and the same for both roles.
//
// Invariant: what children hold of a lot, plus the units left in it, is at most
// what the lot was granted.
type Relay struct {
	Holder holder.State
	// Back is units that are to go back to the tier above beside the holder's own. The
	// owner of the relay counts them, and sends them before its next ask or with it.
	Back int64
	distance

	askers granter.Askers
	lent   [2]lent // of the running window and the next
}

// Acquire applies a child's want and answers it from the relay's own leases, or
// from a denial it remembers. With Wait there is no answer yet: the caller keeps
// the want, asks above ([Relay.Ask]) and answers it from the reply ([Relay.Apply]).
// What the want gives back is settled in either case, once: an answered or kept want must
// not be applied again.
// The part it returns belongs to a lease that the relay does not hold any more: the caller
// gives it back above. The debt in the want is not read. The caller passes it on as it is,
// under the child's name, and the child repeats it until the tier that counts has
// acknowledged it: a relay that added it up would count every repetition.
func (r *Relay) Acquire(t *lease.Terms, now lease.Millis, w lease.Want) (lease.Grant, holder.Verdict, holder.Part) {
	r.askers.Note(int64(now/t.Interval), w.Fresh)
	back := r.settle(t, now, w)
	r.Back += back.Units
	if w.Want > 0 {
		g, ok := r.cut(t, now, w, quartersToCut) // nearly always: nothing is copied twice
		if !ok && t.Far {
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
	if offers && t.Consistency == lease.Exact || !r.refuses(t, now, w) {
		return lease.Grant{}, holder.Wait
	}
	if !t.Far { // else that was tried before
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
	r.Holder.Refused = r.Holder.Refused || w.Need > 0
	return r.refusal(t, now, w), holder.Refuse
}

// Prefetch decides whether to ask above after an answer, while no child waits. For an exact rule
// there is nothing to fetch ahead.
func (r *Relay) Prefetch(t *lease.Terms, now lease.Millis) holder.Asks {
	if t.Consistency == lease.Exact {
		return holder.NoAsk
	}
	if t.Far {
		return r.prefetchFar(t, now)
	}
	return r.Holder.Prefetch(t, now)
}

// Ask makes the want for the tier above on behalf of the children's wants that
// wait, oldest first; with none of them it is a top-up for the relay itself. The
// queue holds only wants for the next window, or none of them. The least need is what is
// asked for: a costly one must not deny those that fit.
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
	if t.Far {
		ask = r.askFar
	}
	w := ask(t, now, need, waiting, behind)
	w.Want = max(w.Want, want)
	return w
}

// Apply takes the reply to w, which was asked for queue, and answers each of
// these wants in order into grants, which has the length of queue. A child that
// gets nothing is denied as the relay was. The part is to be given back above.
func (r *Relay) Apply(t *lease.Terms, now, sent lease.Millis, w lease.Want, g lease.Grant, jitter lease.Percent, queue []lease.Want, grants []lease.Grant) holder.Part {
	if g.Status != lease.OK && g.Status != lease.Denied {
		r.Holder.Asking = r.Holder.Asking && w.Want == 0
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
	if t.Far {
		r.heardFar(t, now, sent, w, g, jitter)
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

// penalize charges the needs that were denied to a queue, where denials are charged: all
// but the one that the tier above has charged.
func (r *Relay) penalize(t *lease.Terms, now lease.Millis, w lease.Want, g lease.Grant, queue []lease.Want, grants []lease.Grant) {
	if !t.ChargesDenied {
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

// Retries reports whether a want that waited and was denied is asked for again at once,
// because the relay has more to give back than it sent with the ask. Where denials are
// charged they are final.
func (r *Relay) Retries(t *lease.Terms, now lease.Millis, w lease.Want) bool {
	return !t.ChargesDenied && r.offers(t, now, w)
}

// answerQueued answers a queued want from what is left of the reply to w: what it waits for,
// or what it may have ahead.
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

// settle takes back what a child gives back, at most what is out of its lease. Units of a
// window are lent again until that ends. Units of a lease of which this relay has noted
// nothing ([Relay.lend]) go to the tier above, which limits them to what it has out: another
// relay cut them, the rule is exact, or they are tokens of a bucket, which would stay out
// for ever in a newer lot.
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

// TakeBack settles units that were handed out and did not arrive. They are not limited to
// what is out, because the caller counts them. The part it returns is to be given back above.
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

// refuses reports whether a want that no lot answers is over the limit by what
// the relay has learned of the tier above. A want of an exact rule is refused only while its
// denial lasts.
func (r *Relay) refuses(t *lease.Terms, now lease.Millis, w lease.Want) bool {
	need := max(w.Need, 1)
	if t.Consistency == lease.Exact {
		return r.Holder.Take(t, now, need).Verdict == holder.Refuse
	}
	if w.Need == 0 && r.Holder.UnderWay(t, now) {
		return true
	}
	return r.Holder.Refuses(t, now, need)
}

// offers reports whether a need fits, by what is known, into what the tier above will have
// when the relay has given back what it holds and what is on its way. No request waits for that
// where the tier above is far.
func (r *Relay) offers(t *lease.Terms, now lease.Millis, w lease.Want) bool {
	back := r.Back + r.Holder.Held(t, now)
	switch {
	case back == 0 || w.Need == 0 || t.Far && t.Consistency != lease.Exact:
		return false
	case t.Consistency == lease.Exact:
		return w.Need-back < r.Holder.Least
	}
	return !r.Holder.Refuses(t, now, w.Need-back)
}

// refusal is the denial of a want for which the relay may not ask now. The child may ask
// again after a lease interval: until then other children may have given units back, or the
// relay may have got a lease.
func (r *Relay) refusal(t *lease.Terms, now lease.Millis, w lease.Want) lease.Grant {
	g := r.report(t, now)
	g.Status = lease.Denied
	g.RetryAfter = r.Holder.Retry(t, now, max(w.Need, 1))
	g.AskAfter = t.Interval
	if t.Window > 0 { // not beyond the end of the window
		g.AskAfter = min(g.AskAfter, g.RetryAfter)
	}
	if flip := r.Holder.Reset - now; flip > 0 {
		g.AskAfter = min(g.AskAfter, flip)
	}
	return g
}

// report is a grant of nothing with what the relay has learned of the counter. While a debt of
// the relay itself is not acknowledged, it reports that nothing is left.
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

// DebtReplied learns from the reply to a child's debt that was passed on.
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

// Idle reports that the relay may be forgotten: its account may, and no lease that it has cut still runs. A relay in
// its place would take back no more than it has cut itself.
func (r *Relay) Idle(t *lease.Terms, now lease.Millis) bool {
	return r.Holder.Idle(t, now) && !r.lends(now) && (!t.Far || now >= r.Holder.Asked+farMemory)
}
