package lease

// Apply takes the reply to want w, which was sent at sent. spare is what of
// g.Granted the requests that waited did not use; it becomes a lot. jitter is a
// factor in percent, 90 to 110, that keeps holders from asking in step.
// The units that it returns found no room. The caller gives them back before the next ask
// of this account.
func (a *Account) Apply(t *Terms, now, sent Millis, w Want, g Grant, spare int64, jitter Millis) Part {
	if w.Want > 0 {
		a.Asking = false
	}
	if !a.Back.replied(t, now, g.Status, jitter) {
		return Part{}
	}
	ends := a.closed(t, now, sent+g.TTL, g) // before learn changes Reset: Relay.Apply computes the same
	if w.Want > 0 {
		a.trip = now - sent
	}
	a.paid(w, g)
	if g.StartsIn == 0 {
		a.learn(t, now, w, g)
	}
	if w.Want == 0 {
		return Part{}
	}
	a.denial(now, w, g)
	a.pause(t, sent, w, g, jitter)
	a.limited(t, now, w, g)
	a.learnRetry(now, &g)
	a.penalize(t, now, w, g)
	rest := Part{Units: spare, Lease: g.Lease, Expiry: ends}
	if g.Granted == 0 || t.Consistency == Exact {
		return a.returned(t, rest)
	}
	a.Size = g.Granted
	a.Spent = Sum(a.Spent, g.Granted-spare)
	if spare == 0 {
		a.grow()
		return Part{}
	}
	if t.spentAtOnce(w, g) {
		return a.returned(t, rest)
	}
	lot := Lot{Units: spare, Expiry: ends, TTL: g.TTL, Lease: g.Lease}
	if g.StartsIn > 0 {
		lot.From = now + 1 + g.StartsIn // now is rounded down
	}
	rest = a.store(now, lot)
	if t.Far {
		a.close(t, now)
	}
	return a.returned(t, rest)
}

// spentAtOnce reports whether the limit counts all of a grant from the moment of the
// grant, as a sliding log does with a grant of no more than what waits. Spare units of it
// go back: the log would forget them up to a ttl too early.
func (t *Terms) spentAtOnce(w Want, g Grant) bool {
	return t.trailing && g.Granted <= w.Waiting
}

// learn notes what a reply states of the counter above. Requests that waited and get
// nothing are refused; what was refused before stays so until much is left, or the
// counter has started anew since.
func (a *Account) learn(t *Terms, now Millis, w Want, g Grant) {
	if t.ChargesDenied && !a.owesPenalty(t, now) { // of a window that is over
		a.Denied = 0
	}
	decided := g.Granted > 0 || g.Status == Denied
	refused := decided && g.Granted < w.Waiting || a.Refused && now < a.Reset
	a.Refused = refused && 2*g.Remaining < t.Capacity
	a.Left, a.OwnLimit = g.Remaining, t.OwnLimit(&g)
	if g.Reset > 0 || now < a.Reset { // else all that it shows is that the window is over
		a.Reset = now + g.Reset
	}
	if g.Remaining > 0 && !a.scarce(t, g) {
		a.LimitedUntil = 0
	}
	if a.DeniedNeed > 0 { // units that came back there since are not denied any more
		a.DeniedNeed = max(a.DeniedNeed, g.Remaining+1)
	}
}

// OwnLimit is what a reply that decides states for [Account.OwnLimit].
func (t *Terms) OwnLimit(g *Grant) int64 {
	if g.Limit == t.Capacity {
		return 0
	}
	return g.Limit + 1
}

// returned notes units that are given back: the tier above will have that many more. An
// Optimistic holder does not count on them, because it overdraws by Left.
func (a *Account) returned(t *Terms, p Part) Part {
	if p.Units > 0 && t.Consistency != Optimistic {
		a.Left += p.Units
		if !t.Far {
			a.LimitedUntil = 0
		}
		if a.DeniedNeed > 0 {
			a.DeniedNeed += p.Units
		}
	}
	return p
}

// denial notes which requests the reply denies, and until when. A denial states how much is left: a
// request that needs no more may still ask. A grant ends a denial unless the same need would be
// denied again. A grant of the next window does not end it, nor does an empty grant in a group
// that another member denied.
func (a *Account) denial(now Millis, w Want, g Grant) {
	switch {
	case g.Status == Denied:
		a.DeniedNeed = g.Remaining + 1
		if w.Need > 0 {
			a.DeniedNeed = min(a.DeniedNeed, w.Need)
		}
		a.NextAsk = max(a.NextAsk, now+g.AskAfter)
	case g.StartsIn > 0 && a.DeniedNeed > 0:
		a.NextAsk = now + 1 + g.StartsIn
	case g.Granted > 0 && now < a.NextAsk && g.Remaining < a.DeniedNeed:
		a.DeniedNeed = g.Remaining + 1
	case g.Granted > 0:
		a.DeniedNeed, a.NextAsk = 0, 0
	}
}

// pause puts off the next ask after one that was sent at sent and got less than it wanted. Far:
// for FarPause, but only for a trip if requests will soon wait for that ask. Near: for pace where
// units trickle back and next to none is left, else not at all.
func (a *Account) pause(t *Terms, sent Millis, w Want, g Grant, jitter Millis) {
	if g.Granted >= w.Want || t.Consistency == Exact {
		return
	}
	var pause Millis
	switch {
	case t.Far && g.StartsIn == 0:
		pause = a.FarPause(t) * jitter / 100
		if !t.Refills && g.Granted < a.during(pause) && !a.scarce(t, g) {
			pause = a.trip
		}
	case !t.Far && t.pace > 0 && g.Remaining < t.wantFloor():
		pause = max(t.pace*jitter/100, 1)
	default:
		return
	}
	a.NextAsk = max(a.NextAsk, sent+pause)
}

// limited sets until when requests that find no units are refused: for two lease intervals
// after a reply that left nothing, or for the pause and four trips where the tier above is far. After a
// denial it is long enough that the next ask is sent after a refused request, so that no request
// waits for it, but it ends when the limit has units again.
func (a *Account) limited(t *Terms, now Millis, w Want, g Grant) {
	if g.StartsIn > 0 || g.Remaining > 0 && (g.Granted >= w.Want || !a.scarce(t, g)) { // see learn
		return
	}
	a.LimitedUntil = now + 2*t.Interval
	if t.Far {
		a.LimitedUntil = now + max(2*t.Interval, a.FarPause(t)) + 4*min(a.trip, longestTrip)
	}
	if g.Status == Denied {
		a.LimitedUntil = max(a.LimitedUntil, min(a.NextAsk+t.Interval, now+g.RetryAfter))
	}
	if !t.Refills {
		a.LimitedUntil = min(a.LimitedUntil, a.Reset)
	}
}

// scarce reports whether a reply left so little far above that no request waits for it: what comes
// back or trickles in there is shared with others, and a trip takes longer than a client likes.
func (a *Account) scarce(t *Terms, g Grant) bool {
	return t.Far && g.Remaining < max(t.Ample, t.wantFloor())
}

// store puts a new lot behind the older one. It returns the units of whichever
// lot has no place: a third lease, or one that ended on its way here.
func (a *Account) store(now Millis, lot Lot) Part {
	i := a.place(now)
	if i < 0 || now >= lot.Expiry {
		return lot.Part()
	}
	old := a.Lots[i]
	if i == 0 {
		a.Lots[0] = a.Lots[1]
	}
	a.Lots[1] = lot
	if old.Local {
		return Part{}
	}
	return old.Part()
}

// place is the lot that can be replaced, -1 if none can: an empty one, else one that has
// lapsed, else a share of the holder's own, which is not needed once a lease arrives.
func (a *Account) place(now Millis) int {
	place, best := -1, 3
	for i := range a.Lots {
		rank := 3
		switch lot := &a.Lots[i]; {
		case lot.Units == 0 && !lot.Sharing(now):
			rank = 0
		case now >= lot.Expiry:
			rank = 1
		case lot.Local:
			rank = 2
		}
		if rank < best {
			place, best = i, rank
		}
	}
	return place
}

// PassOver takes the reply to an ask of a group that another of its wants denied:
// nothing was granted or denied to this one. What is left above may end an earlier denial.
func (a *Account) PassOver(t *Terms, now, sent Millis, w Want, g Grant) {
	a.Asking = false
	a.Apply(t, now, sent, Want{Overdrawn: w.Overdrawn}, g, 0, 100)
	switch {
	case a.fits(g):
		a.DeniedNeed, a.NextAsk = 0, 0
	case t.Consistency == Exact: // nothing was decided: the next request may ask
		a.NextAsk = min(a.NextAsk, now)
	}
}

// fits reports whether what a reply left above is enough for what was denied.
func (a *Account) fits(g Grant) bool { return a.DeniedNeed > 0 && g.Remaining >= a.DeniedNeed }

// Freed takes the reply to a want that gave back what others held and asked for nothing. If
// what was denied fits now, requests may ask again.
func (a *Account) Freed(g Grant) {
	if a.fits(g) {
		a.DeniedNeed, a.NextAsk, a.LimitedUntil = 0, 0, 0
	}
}
