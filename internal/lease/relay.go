package lease

// Relay is a tier in the middle: a holder of the tier above and the granter of
// the tier below. It cuts leases for its children out of its own, so a child's
// lease never outlives, nor exceeds, the one it was cut from. Its clock is one
// and the same for both roles.
//
// Invariant: what children hold of a lot, plus the units left in it, is at most
// what the lot was granted.
type Relay struct {
	Account Account
	// Back is units that are to go back to the tier above beside the account's own. The
	// owner of the relay counts them, and sends them before its next ask or with it.
	Back int64

	askers askers
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
func (r *Relay) Acquire(t *Terms, now Millis, w Want) (Grant, Verdict, Part) {
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
			return g, Admit, back
		}
	}
	g, v := r.answer(t, now, w)
	r.Back -= back.Units
	return g, v, back
}

// answer answers a want that was not cut from a lease.
func (r *Relay) answer(t *Terms, now Millis, w Want) (Grant, Verdict) {
	if w.Want == 0 {
		return r.report(t, now), Admit
	}
	offers := r.offers(t, now, w)
	if offers && t.Consistency == Exact || !r.refuses(t, now, w) {
		return Grant{}, Wait
	}
	if !t.Far { // else that was tried before
		if g, ok := r.cut(t, now, w, 0); ok {
			return g, Admit
		}
	}
	if offers {
		return Grant{}, Wait
	}
	if t.Consistency != Exact { // takeExact has noted it for an exact rule
		r.Account.Deny(t, now, w.denies(t))
	}
	r.Account.Refused = r.Account.Refused || w.Need > 0
	return r.refusal(t, now, w), Refuse
}

// Top decides whether to ask above after an answer, while no child waits. For an exact rule
// there is nothing to fetch ahead.
func (r *Relay) Top(t *Terms, now Millis) Asks {
	if t.Consistency == Exact {
		return NoAsk
	}
	return r.Account.askBehind(t, now)
}

// Ask makes the want for the tier above on behalf of the children's wants that
// wait, oldest first; with none of them it is a top-up for the relay itself. The
// queue holds only wants for the next window, or none of them. The least need is what is
// asked for: a costly one must not deny those that fit.
func (r *Relay) Ask(t *Terms, now Millis, queue []Want, behind Asks) Want {
	var need, waiting, want int64
	for _, c := range queue {
		if c.Need > 0 && (need == 0 || c.Need < need) {
			need = c.Need
		}
		if c.Next {
			behind = Ahead
		}
		waiting += c.Waiting
		want += c.Want
	}
	w := r.Account.Ask(t, now, need, waiting, behind)
	w.Want = max(w.Want, want)
	return w
}

// Apply takes the reply to w, which was asked for queue, and answers each of
// these wants in order into grants, which has the length of queue. A child that
// gets nothing is denied as the relay was. The part is to be given back above.
func (r *Relay) Apply(t *Terms, now, sent Millis, w Want, g Grant, jitter Millis, queue []Want, grants []Grant) Part {
	if g.Status != OK && g.Status != Denied {
		r.Account.Asking = r.Account.Asking && w.Want == 0
		for i := range grants {
			grants[i] = Grant{Status: g.Status}
		}
		return Part{}
	}
	left := g.Granted
	ends := r.Account.closed(t, now, sent+g.TTL, g)
	stated := g
	if t.Consistency != Optimistic && g.StartsIn == 0 { // see report
		stated.Remaining = max(g.Remaining, min(g.Remaining+r.Account.Held(t, now)+r.Back, t.Capacity))
	}
	atOnce := t.spentAtOnce(w, g)
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
		grants[i] = answerQueued(t, now, ends, c, stated, left, ahead)
		left -= grants[i].Granted
		r.lend(t, now, g.Lease, grants[i].Granted, ends)
	}
	var back Part
	if t.Consistency != Exact && !atOnce && now < ends { // it will be kept
		back = r.makePlace(now, left)
	}
	if rest := r.Account.Apply(t, now, sent, w, g, left, jitter); rest.Units > 0 {
		back = rest
	}
	for i, c := range queue {
		if grants[i].Status != Denied {
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
func (r *Relay) penalize(t *Terms, now Millis, w Want, g Grant, queue []Want, grants []Grant) {
	if !t.ChargesDenied {
		return
	}
	var units int64
	for i, c := range queue {
		if grants[i].Status == Denied {
			units += c.Need
		}
	}
	if g.Status == Denied {
		units -= w.Need
	}
	r.Account.Deny(t, now, units)
}

// makePlace makes place for a new lease of so many units where both lots hold some: of the
// lots that are not for the next window, the one with fewer units goes back. A want has not
// found enough in the old lots. If the new lease went back instead, the next want would
// have to ask again.
func (r *Relay) makePlace(now Millis, units int64) Part {
	a, b := &r.Account.Lots[0], &r.Account.Lots[1]
	if units == 0 || r.Account.place(now) >= 0 {
		return Part{}
	}
	if a.From > now || b.From <= now && b.Units < a.Units {
		a = b
	}
	if a.From > now || a.Units >= units {
		return Part{}
	}
	back := a.Part()
	*a = Lot{}
	return back
}

// Retries reports whether a want that waited and was denied is asked for again at once,
// because the relay has more to give back than it sent with the ask. Where denials are
// charged they are final.
func (r *Relay) Retries(t *Terms, now Millis, w Want) bool {
	return !t.ChargesDenied && r.offers(t, now, w)
}

// answerQueued answers a queued want from what is left of the reply: what it waits for,
// or what it may have ahead.
func answerQueued(t *Terms, now, ends Millis, c Want, g Grant, left, ahead int64) Grant {
	granted := min(c.Want, left, max(c.Waiting, ahead))
	if granted < max(c.Need, 1) {
		if g.Granted > 0 {
			g.AskAfter = t.Interval
		}
		g.Status, g.Granted, g.StartsIn, g.TTL = Denied, 0, 0, 0
		if t.Consistency != Optimistic {
			g.Remaining += left
		}
		g.RetryAfter = t.RetryAfter(&g, max(c.Need, 1))
		return g
	}
	g.Status, g.Granted = OK, granted
	g.TTL = max(0, ends-now-1)
	if t.Consistency != Optimistic {
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
func (r *Relay) settle(t *Terms, now Millis, w Want) Part {
	r.Account.Deny(t, now, w.Denied)
	units := w.Unused
	if units == 0 || t.Lies(units) {
		return Part{}
	}
	l := r.lentOf(now, w.Lease)
	if l == nil {
		return Part{Units: units, Lease: w.Lease, Expiry: now}
	}
	return r.TakeBack(t, now, Part{Units: min(units, l.units), Lease: w.Lease})
}

// TakeBack settles units that were handed out and did not arrive. They are not limited to
// what is out, because the caller counts them. The part it returns is to be given back above.
func (r *Relay) TakeBack(t *Terms, now Millis, p Part) Part {
	if l := r.lentOf(now, p.Lease); l != nil {
		l.units = max(0, l.units-p.Units)
	}
	p.Expiry = now
	if p.Units == 0 || t.Refills {
		return p
	}
	for i := range r.Account.Lots {
		if lot := &r.Account.Lots[i]; lot.Lease == p.Lease && lot.Expiry > 0 && !lot.Local {
			lot.Units += p.Units
			return Part{}
		}
	}
	return p
}

// refuses reports whether a want that no lot answers is over the limit by what
// the relay has learned of the tier above. A want of an exact rule is refused only while its
// denial lasts.
func (r *Relay) refuses(t *Terms, now Millis, w Want) bool {
	need := max(w.Need, 1)
	if t.Consistency == Exact {
		return r.Account.takeExact(t, now, need).Verdict == Refuse
	}
	if w.Need == 0 && r.Account.UnderWay(t, now) {
		return true
	}
	return r.Account.refused(t, now, need)
}

// offers reports whether a need fits, by what is known, into what the tier above will have
// when the relay has given back what it holds and what is on its way. No request waits for that
// where the tier above is far.
func (r *Relay) offers(t *Terms, now Millis, w Want) bool {
	back := r.Back + r.Account.Held(t, now)
	switch {
	case back == 0 || w.Need == 0 || t.Far && t.Consistency != Exact:
		return false
	case t.Consistency == Exact:
		return w.Need-back < r.Account.DeniedNeed
	}
	return !r.Account.refused(t, now, w.Need-back)
}

// refusal is the denial of a want for which the relay may not ask now. The child may ask
// again after a lease interval: until then other children may have given units back, or the
// relay may have got a lease.
func (r *Relay) refusal(t *Terms, now Millis, w Want) Grant {
	g := r.report(t, now)
	g.Status = Denied
	g.RetryAfter = r.Account.Retry(t, now, max(w.Need, 1))
	g.AskAfter = t.Interval
	if t.Window > 0 { // not beyond the end of the window
		g.AskAfter = min(g.AskAfter, g.RetryAfter)
	}
	if flip := r.Account.Reset - now; flip > 0 {
		g.AskAfter = min(g.AskAfter, flip)
	}
	return g
}

// report is a grant of nothing with what the relay has learned of the counter. While a debt of
// the relay itself is not acknowledged, it reports that nothing is left.
func (r *Relay) report(t *Terms, now Millis) Grant {
	g := Grant{Status: OK, Limit: t.Capacity, Reset: max(0, r.Account.Reset-now)}
	switch {
	case r.Account.Overdrawn > 0:
		if t.Refills {
			g.Reset += Millis(float64(r.Account.Overdrawn) * t.Unit)
		}
	case t.Consistency == Optimistic: // its children overdraw by Remaining, which takes from the counter, not from the lots
		g.Remaining = r.Account.Left
	default:
		g.Remaining = min(r.Account.Left+r.Account.Held(t, now)+r.Back, t.Capacity)
	}
	return g
}

// DebtReplied learns from the reply to a child's debt that was passed on.
func (r *Relay) DebtReplied(t *Terms, now Millis, above Grant) {
	if above.Status == OK || above.Status == Denied {
		r.Account.Apply(t, now, now, Want{}, above, 0, 100)
	}
}

// AfterDebt is the grant g for a child whose debt was passed on. An optimistic child
// overdraws by Remaining, so that is at most what the reply to its debt has left.
func (t *Terms) AfterDebt(g, above Grant) Grant {
	if t.Consistency == Optimistic {
		g.Remaining = min(g.Remaining, above.Remaining)
	}
	return g
}
