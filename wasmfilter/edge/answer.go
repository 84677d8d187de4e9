package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// settle decides what a call was for, now that it has ended: by its grants, or by
// on_failure.
func (d *decider) settle(now lease.Millis, f *uplink.Flight) {
	defer d.giveUp(f)
	for i := range f.Reports {
		if r := &f.Reports[i]; r.Account && f.Answered {
			d.accounts.reported(now, f.Sent, r, r.Policy.Granted(&f.Grants[i]))
		}
	}
	for i, waiting := range f.Asks {
		a := waiting.(*ask)
		if !f.Answered {
			if hd := a.holding; hd != nil {
				hd.Asking = false
			}
			d.failWaiters(now, a)
			d.again(now, a)
			continue
		}
		g := a.policy.Granted(&f.Grants[len(f.Reports)+i])
		if a.holding != nil {
			d.grantSlots(now, f.Sent, a, g)
		} else {
			d.grant(now, f.Sent, a, g)
		}
	}
	if f.Lane.Open {
		d.failGathered(now, f.Lane)
	}
}

// giveUp ends the asks that a panic has left of a call: a key must not count as asked for when its call has ended. The
// requests that wait for them wait until their timeout.
func (d *decider) giveUp(f *uplink.Flight) {
	for _, waiting := range f.Asks {
		a := waiting.(*ask)
		if !a.flying || d.asks.pending[a.key.Hash] != a {
			continue
		}
		if a.holding != nil {
			a.holding.Asking = false
		}
		d.asks.end(a)
	}
}

// grant hands units out to the requests that wait, oldest first, and keeps the rest.
func (d *decider) grant(now, sent lease.Millis, a *ask, g lease.Grant) {
	g.Granted = min(g.Granted, a.want.Want)
	if g.Granted > 0 { // each round has brought some of what was left
		a.repeats = 0
	}
	spare := g.Granted
	d.hand(now, a, &g, func(v waiter, h *hit) (holder.Verdict, int64) {
		switch {
		case g.Status == lease.OK && g.Granted == 0 && v.request != nil && v.request.undecided > 1:
			return holder.Unanswered, 0 // another want of its group was denied, and decides it
		case v.cost <= spare && g.StartsIn == 0:
			spare -= v.cost
			h.taken.Parts[0] = holder.Part{Units: v.cost, Lease: g.Lease, Expiry: sent + g.TTL}
			return holder.Admit, spare
		case d.mayFit(now, a, &g, spare+g.Remaining, v.cost):
			return holder.Wait, 0
		}
		return holder.Reject, spare
	})
	d.accounts.keep(now, sent, a, g, spare)
	d.again(now, a)
}

// grantSlots lets the requests that wait use the slots of a grant, oldest first.
func (d *decider) grantSlots(now, sent lease.Millis, a *ask, g lease.Grant) {
	hd, again, atOnce := a.holding, false, a.repeats < maxRepeats
	d.slots.granted(now, sent, hd, g)
	if g.Status == lease.Denied {
		hd.denied = now
		again = hd.others.Gave >= sent
	}
	d.hand(now, a, &g, func(v waiter, h *hit) (verdict holder.Verdict, left int64) {
		taken := hd.free(now) >= h.cost
		if v.request != nil {
			if taken, _ = d.slots.take(now, hd, h.cost); taken {
				h.slots = hd
			}
		}
		switch {
		case taken:
			verdict = holder.Admit
		case again && v.request != nil:
			if v.request.hits[v.hit].denied = true; atOnce {
				return holder.Wait, 0
			}
			return holder.Unanswered, 0
		default:
			verdict = holder.Reject
		}
		return verdict, max(0, hd.free(now))
	})
	if again {
		hd.NextAsk = 0
	}
	d.again(now, a)
}

// hand takes the answer to an ask to the requests that it is for. give decides on each by
// a grant, and returns what is left then; with Wait it is asked for again at once, with
// Unanswered at the next tick, unless another answer decides it before.
func (d *decider) hand(now lease.Millis, a *ask, g *lease.Grant, give func(v waiter, h *hit) (holder.Verdict, int64)) {
	a.repeats++
	queued := len(a.queue)
	for _, v := range a.asked {
		if !v.live() {
			continue
		}
		h := v.of(a)
		if g.Status != lease.OK && g.Status != lease.Denied {
			d.answer(now, v, &h, d.failAnswered(now, &h, g.Status))
			continue
		}
		switch verdict, left := give(v, &h); verdict {
		case holder.Unanswered:
			v.request.hits[v.hit].asked = false
		case holder.Wait:
			a.queue = append(a.queue, v)
		default:
			h.answeredBy(&a.want, g, left, verdict)
			d.answer(now, v, &h, verdict)
		}
	}
	if len(a.queue) == queued {
		a.repeats = 0
	}
}

// maxRepeats is how often a worker asks again, at once, for a request that was denied
// while another worker gave slots back: the region may have read either first. After
// that it asks once more with each tick.
const maxRepeats = 3

// mayFit reports whether a request that a reply does not admit is asked for again: so much
// is left by the reply, and the key holds units that the want did not offer, or the want
// was for those of other requests. That a denied need was charged, or others of a group
// were decided with it, cannot be undone.
func (d *decider) mayFit(now lease.Millis, a *ask, g *lease.Grant, left, cost int64) bool {
	t := &a.policy.Terms
	final := a.grouped || a.repeats > maxRepeats || g.Status == lease.Denied && t.ChargesRejected
	if final || t.Consistency == lease.Exact {
		return false
	}
	held := d.accounts.open(a.policy, a.key).Held(t, now)
	return (held > 0 || g.Granted > 0) && cost <= left+held
}

// answeredBy fills in the quota by the answer.
func (h *hit) answeredBy(w *lease.Want, g *lease.Grant, spare int64, v holder.Verdict) {
	if !h.policy.Concurrency {
		h.own = h.policy.Terms.OwnLimit(g)
	}
	h.quota.Remaining, h.quota.Reset = g.Remaining+spare, g.Reset
	if v == holder.Reject {
		h.blocked = g.Block > 0
		h.quota.Remaining, h.quota.Reset = 0, holder.RetryAfter(&h.policy.Terms, w, g, h.cost)
	}
}

// answer ends a wait.
func (d *decider) answer(now lease.Millis, v waiter, h *hit, verdict holder.Verdict) {
	if v.request == nil {
		d.countShadow(now, h, verdict)
		d.slots.leave(now, h) // its request has gone on without them
		if v.reserved != nil {
			d.decideReserved(now, v.reserved, h, verdict)
		}
		return
	}
	r := v.request
	h.key = r.hits[v.hit].key
	r.hits[v.hit] = *h
	d.finish(now, r, d.decided(now, r, v.hit, verdict) && d.resume(now, r))
}

// decided notes the verdict on a hit that was undecided; false if it denies the
// request.
func (d *decider) decided(now lease.Millis, r *Request, i int, v holder.Verdict) bool {
	r.undecided--
	if v == holder.Reject {
		d.deny(now, r, i)
		return false
	}
	r.hits[i].verdict = holder.Admit
	return true
}

// resume goes on with a request that has been granted all that it asked for: what
// was left for later is taken, or asked for. False if that denied the request.
func (d *decider) resume(now lease.Millis, r *Request) bool {
	if r.undecided == 0 {
		return true
	}
	for i := range r.hits {
		if h := &r.hits[i]; h.verdict == holder.Wait && h.asked {
			return true // its answer is still to come
		}
	}
	for i := range r.hits {
		h := &r.hits[i]
		if h.verdict != holder.Wait {
			continue
		}
		if v := d.takeUndenied(now, h); v != holder.Wait && !d.decided(now, r, i, v) {
			return false
		}
	}
	return d.askNext(now, r)
}

// finish takes a request that waited out of those that wait, if it has a verdict: goesOn is
// false if it was denied. False if it goes on waiting.
func (d *decider) finish(now lease.Millis, r *Request, goesOn bool) bool {
	switch {
	case goesOn && r.undecided > 0:
		return false
	case goesOn:
		d.admit(now, r)
	}
	d.unwait(r)
	r.Waited = now - r.arrived
	d.port.Decided = append(d.port.Decided, r)
	return true
}

func (d *decider) unwait(r *Request) {
	last := len(d.waiting) - 1
	if r.waiting > last || d.waiting[r.waiting] != r {
		return
	}
	d.waiting[r.waiting] = d.waiting[last]
	d.waiting[r.waiting].waiting = r.waiting
	d.waiting[last] = nil
	d.waiting = d.waiting[:last]
}

// again asks once more for the hits that came while the ask was in flight, or ends it.
func (d *decider) again(now lease.Millis, a *ask) {
	a.asked, a.queue = append(a.asked[:0], a.queue...), a.queue[:0]
	a.flying, a.closed, a.grouped = false, false, false
	for {
		a.asked = d.retake(now, a, a.asked)
		if len(a.asked) == 0 {
			break
		}
		if d.uplink.Lane(a.policy).Open {
			d.failWaiters(now, a)
			break
		}
		h := a.asked[0].of(a)
		if want, right := d.right(now, &h, 0); right == holder.Wait {
			a.want = want
			d.uplink.Lane(a.policy).Gather(now, a)
			d.uplink.Lane(a.policy).MarkUrgent()
			return
		}
	}
	d.asks.end(a)
}

// retake decides waiters anew by what the key has now, and returns those that still wait.
func (d *decider) retake(now lease.Millis, a *ask, waiters []waiter) []waiter {
	still := waiters[:0]
	for _, v := range waiters {
		if !v.live() {
			continue
		}
		h := v.of(a)
		verdict := d.take(now, &h)
		if verdict == holder.Wait {
			still = append(still, v)
			continue
		}
		d.answer(now, v, &h, verdict)
	}
	return still
}

// failGathered decides the hits that wait for calls that will not be made, because
// the breaker is open.
func (d *decider) failGathered(now lease.Millis, l *uplink.Lane) {
	for _, gathered := range l.Drop() {
		a := gathered.(*ask)
		a.asked, a.queue = append(a.asked, a.queue...), a.queue[:0]
		d.failWaiters(now, a)
		d.asks.end(a)
	}
}

// failWaiters decides the hits that an ask was for.
func (d *decider) failWaiters(now lease.Millis, a *ask) {
	for _, v := range a.asked {
		if v.live() {
			h := v.of(a)
			d.answer(now, v, &h, d.fail(now, &h))
		}
	}
	a.asked = a.asked[:0]
}
