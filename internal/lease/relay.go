package lease

// quartersToCut is how many quarters of its ttl a lot has left when it is still cut.
// With less the node asks above, and falls back on the lot if that gives nothing.
const quartersToCut = 1

// Relay is a tier in the middle: a holder of the tier above and the granter of
// the tier below. It cuts leases for its children out of its own, so a child's
// lease never outlives, nor exceeds, the one it was cut from. Its clock is one
// and the same for both roles.
//
// Invariant: what children hold of a lot, plus the units left in it, is at most
// what the lot was granted.
type Relay struct {
	Account Account
	// Back is units that are to go back to the tier above beside the slot's own. Who keeps
	// the node counts them: they travel before its next ask, or with it.
	Back int64

	askers Askers
	lent   [2]lent // of the running window and the next
}

// Acquire applies a child's want and answers it from the node's own leases, or
// from a denial it remembers. With Wait there is no answer yet: the caller keeps
// the want, asks above ([Relay.Ask]) and answers it from the reply ([Relay.Apply]).
// What comes back in the want is settled in either case, once: an answered or
// kept want must not be applied again.
// The part it returns belongs to a lease that the node holds no more: the caller
// gives it back above. What the want says of a debt is not read: the caller passes
// that on as it is, under the child's name, and the child repeats it until the tier
// that counts has it. A node that added it up would add every repetition.
func (n *Relay) Acquire(t *Terms, now Millis, w Want) (Grant, Verdict, Part) {
	n.askers.Note(int64(now/t.Interval), w.Fresh)
	back := n.settle(t, now, w)
	n.Back += back.Units // while it answers
	if w.Want == 0 {
		g := n.report(t, now)
		n.Back -= back.Units
		return g, Admit, back
	}
	if g, ok := n.cut(t, now, w, quartersToCut); ok {
		n.Back -= back.Units
		return g, Admit, back
	}
	g, v := n.missed(t, now, w)
	n.Back -= back.Units
	return g, v, back
}

// missed answers a want for which no lot has enough, or lasts long enough.
func (n *Relay) missed(t *Terms, now Millis, w Want) (Grant, Verdict) {
	offers := n.offers(t, now, w)
	if offers && t.Consistency == Exact || !n.refuses(t, now, w) {
		return Grant{}, Wait
	}
	if g, ok := n.cut(t, now, w, 0); ok {
		return g, Admit
	}
	if offers {
		return Grant{}, Wait
	}
	if t.ChargesDenied && t.Consistency != Exact { // of an exact rule it is noted already
		n.Account.Deny(t, now, w.Need)
	}
	n.Account.Refused = n.Account.Refused || w.Need > 0
	return n.refusal(t, now, w), Refuse
}

// Top says whether to ask above while nobody waits, after an answer. An exact rule
// has nothing to fetch ahead.
func (n *Relay) Top(t *Terms, now Millis) Asks {
	if t.Consistency == Exact {
		return NoAsk
	}
	return n.Account.askBehind(t, now)
}

// Ask makes the want for the tier above on behalf of the children's wants that
// wait, oldest first; with none of them it is a top-up for the node itself. The
// queue holds wants for the next window only, or none of them. The least need
// goes up: a costly one must not deny those that fit.
func (n *Relay) Ask(t *Terms, now Millis, queue []Want, behind Asks) Want {
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
	w := n.Account.Ask(t, now, need, waiting, behind)
	w.Want = max(w.Want, want)
	return w
}

// Apply takes the reply to w, which was asked for queue, and answers each of
// these wants in order into grants, which has the length of queue. A child that
// gets nothing is denied as the node was. The part is to be given back above.
func (n *Relay) Apply(t *Terms, now, sent Millis, w Want, g Grant, jitter Millis, queue []Want, grants []Grant) Part {
	if g.Status != OK && g.Status != Denied {
		n.Account.Asking = n.Account.Asking && w.Want == 0
		for i := range grants {
			grants[i] = Grant{Status: g.Status}
		}
		return Part{}
	}
	left := g.Granted
	told := g
	if t.Consistency != Optimistic && g.StartsIn == 0 { // see report
		told.Remaining = max(g.Remaining, min(g.Remaining+n.Account.Held(t, now)+n.Back, t.Capacity))
	}
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
		grants[i] = share(t, now, sent, c, told, left, ahead)
		left -= grants[i].Granted
		n.lend(t, now, g.Lease, grants[i].Granted, sent+g.TTL)
	}
	var back Part
	if t.Consistency != Exact && now < sent+g.TTL { // it will be kept
		back = n.makePlace(now, left)
	}
	if rest := n.Account.Apply(t, now, sent, w, g, left, jitter); rest.Units > 0 {
		back = rest
	}
	for i, c := range queue {
		if grants[i].Status != Denied {
			continue
		}
		if g, ok := n.cut(t, now, c, 0); ok { // what is left of an old lease is better than nothing
			grants[i] = g
		}
	}
	n.penalize(t, now, w, g, queue, grants)
	return back
}

// penalize charges the needs that were denied to a queue, where that is charged: all but
// the one that the tier above has charged.
func (n *Relay) penalize(t *Terms, now Millis, w Want, g Grant, queue []Want, grants []Grant) {
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
	n.Account.Deny(t, now, units)
}

// makePlace makes place for so many units of a new lease where both lots hold
// some: the lot with fewer goes back, of those that are not meant for the next
// window. The new lease is larger than what is left of an old one that a want did
// not find enough in; if it were the one to go back, the next want would ask again.
func (n *Relay) makePlace(now Millis, units int64) Part {
	a, b := &n.Account.Lots[0], &n.Account.Lots[1]
	if units == 0 || n.Account.place(now) >= 0 {
		return Part{}
	}
	if a.From > now || b.From <= now && b.Units < a.Units {
		a = b
	}
	if a.From > now || a.Units >= units {
		return Part{}
	}
	back := a.part()
	*a = Lot{}
	return back
}

// Retries reports whether a want that waited, and was denied, is asked for again at once:
// because the node has more to give back than went up with the ask. Where the denial was
// charged it is final.
func (n *Relay) Retries(t *Terms, now Millis, w Want) bool {
	return !t.ChargesDenied && n.offers(t, now, w)
}

// share answers a queued want from what is left of the reply: what it waits for,
// or what it may have ahead.
func share(t *Terms, now, sent Millis, c Want, g Grant, left, ahead int64) Grant {
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
	g.TTL = max(0, sent+g.TTL-now-1)
	if t.Consistency != Optimistic {
		g.Remaining += left - granted
	}
	g.AskAfter = 0
	if g.Remaining > 0 || g.StartsIn > 0 {
		g.RetryAfter = 0
	}
	return g
}

// settle takes back what a child gives back, at most what is out of its lease. What
// belongs to a window is lent again until that ends. What was cut by another node, from a
// lease of which this one has cut nothing, goes up, where it is capped. So do tokens of
// a bucket: put into a newer lot they would stay out for ever.
// Where the network may bring a copy to another node, the caller keeps Unused from the want
// and passes it up under a name: only the tier above can know it again.
func (n *Relay) settle(t *Terms, now Millis, w Want) Part {
	n.Account.Deny(t, now, w.Denied)
	units := w.Unused
	if units == 0 || t.Lies(units) {
		return Part{}
	}
	l := n.lentOf(now, w.Lease)
	if t.Refills || l == nil {
		return Part{Units: units, Lease: w.Lease, Expiry: now}
	}
	return n.TakeBack(t, now, Part{Units: min(units, l.units), Lease: w.Lease})
}

// TakeBack settles units that were handed out and reached nobody: unlike what a child
// says, that is known. The part it returns is to be given back above.
func (n *Relay) TakeBack(t *Terms, now Millis, p Part) Part {
	if l := n.lentOf(now, p.Lease); l != nil {
		l.units = max(0, l.units-p.Units)
	}
	p.Expiry = now
	if p.Units == 0 || t.Refills {
		return p
	}
	for i := range n.Account.Lots {
		if lot := &n.Account.Lots[i]; lot.Lease == p.Lease && lot.Expiry > 0 && !lot.Local {
			lot.Units += p.Units
			return Part{}
		}
	}
	return p
}

// cut grants a child part of one lot: of the older one that has what it needs
// and at least so many quarters of its time left. Where neither has enough, both
// together may, if their units go back to the same lease.
func (n *Relay) cut(t *Terms, now Millis, w Want, quarters Millis) (Grant, bool) {
	if t.Consistency == Exact {
		return Grant{}, false
	}
	var both int64
	lots := 0
	rest := Never
	for i := range n.Account.Lots {
		lot := &n.Account.Lots[i]
		lasts := lot.Expiry - now - 1 // now is rounded down
		if lot.Local || lot.Units == 0 || (lot.From > now) != w.Next || lasts < max(1, quarters*lot.TTL/4) {
			continue
		}
		lots++
		both, rest = both+lot.Units, min(rest, lasts)
		if lot.Units < max(w.Need, 1) {
			continue
		}
		share := lot.Units
		if !t.Refills {
			share /= 2 * max(n.askers.Count(), 1)
		}
		granted := min(w.Want, lot.Units, max(w.Waiting, share))
		if granted > 0 {
			lot.Units -= granted
			return n.granted(t, now, granted, lot, lasts), true
		}
	}
	old, young := &n.Account.Lots[0], &n.Account.Lots[1]
	if lots < 2 || w.Need == 0 || both < w.Need || old.Lease != young.Lease {
		return Grant{}, false
	}
	young.Units -= w.Need - old.Units
	old.Units = 0
	return n.granted(t, now, w.Need, young, rest), true
}

// granted is the grant of units that were cut from a lot, for so long.
func (n *Relay) granted(t *Terms, now Millis, units int64, lot *Lot, lasts Millis) Grant {
	n.Account.Spent += units
	if n.Account.Available(now) == 0 {
		n.Account.grow()
	}
	n.lend(t, now, lot.Lease, units, now+lasts)
	g := n.report(t, now)
	g.Granted, g.Lease, g.TTL, g.StartsIn = units, lot.Lease, lasts, max(0, lot.From-now)
	if g.Remaining == 0 && g.StartsIn == 0 {
		g.RetryAfter = max(0, t.retry(1, 0, g.Reset, n.Account.RetryAt-now))
	}
	return g
}

// refuses reports whether a want that no lot answers is over the limit by what
// the node knows of the tier above. A want of an exact rule is refused only while its
// denial lasts.
func (n *Relay) refuses(t *Terms, now Millis, w Want) bool {
	need := max(w.Need, 1)
	if t.Consistency == Exact {
		return n.Account.takeExact(t, now, need).Verdict == Refuse
	}
	if w.Need == 0 && n.Account.underWay(t, now) {
		return true
	}
	return n.Account.refused(t, now, need)
}

// offers reports whether a need fits, by what is known, into what is left above once the
// node has given back what it holds and what is on its way.
func (n *Relay) offers(t *Terms, now Millis, w Want) bool {
	back := n.Back + n.Account.Held(t, now)
	switch {
	case back == 0 || w.Need == 0:
		return false
	case t.Consistency == Exact:
		return w.Need-back < n.Account.DeniedNeed
	}
	return !n.Account.refused(t, now, w.Need-back)
}

// refusal tells a child what the node knows of a limit that it may not ask for
// now, and to come back within a lease interval: the siblings may have given
// something back, or the node have got a lease.
func (n *Relay) refusal(t *Terms, now Millis, w Want) Grant {
	g := n.report(t, now)
	g.Status = Denied
	g.RetryAfter = n.Account.Retry(t, now, max(w.Need, 1))
	g.AskAfter = t.Interval
	if t.Window > 0 { // not beyond the flip, which may just have been
		g.AskAfter = min(g.AskAfter, g.RetryAfter)
	}
	if flip := n.Account.Reset - now; flip > 0 {
		g.AskAfter = min(g.AskAfter, flip)
	}
	return g
}

// report is a grant of nothing that tells what the node knows of the counter:
// that there is nothing, while a debt of the node itself has not reached it.
func (n *Relay) report(t *Terms, now Millis) Grant {
	g := Grant{Status: OK, Limit: t.Capacity, Reset: max(0, n.Account.Reset-now)}
	switch {
	case n.Account.Overdrawn > 0:
		if t.Refills {
			g.Reset += Millis(float64(n.Account.Overdrawn) * t.Unit)
		}
	case t.Consistency == Optimistic: // who overdraws by it takes from the counter, not from the lots
		g.Remaining = n.Account.Left
	default:
		g.Remaining = min(n.Account.Left+n.Account.Available(now)+n.Account.Lapsed(t, now)+n.Back, t.Capacity)
	}
	return g
}

// Told learns from the reply to a child's debt that was passed on.
func (n *Relay) Told(t *Terms, now Millis, above Grant) {
	if above.Status == OK || above.Status == Denied {
		n.Account.Apply(t, now, now, Want{}, above, 0, 100)
	}
}

// AfterDebt is what a child is told whose debt was passed on: an optimistic one
// overdraws by what is left, so that is what the reply to its debt left.
func (t *Terms) AfterDebt(g, above Grant) Grant {
	if t.Consistency == Optimistic {
		g.Remaining = min(g.Remaining, above.Remaining)
	}
	return g
}
