package lease

import "math"

// usageIntervals is over how many lease intervals a holder looks back at its use
// to bound what it wants.
const usageIntervals = 6

// farUsageIntervals is that of a holder far above, in intervals or in trips if these are longer. It
// asks ahead of a trip, so what it holds beyond that is kept from other regions for nothing.
const farUsageIntervals = 2

// farMemory is how long an account that asks far above is kept: to begin anew takes a trip.
const farMemory Millis = 10_000

// Ask makes the want to send and notes that it is under way. need and waiting are the units
// of the cheapest and of all requests that wait for this account, 0 if none waits. If
// requests wait, the account gives back what it has: that was not enough, and the tier
// above compares the need with what is left there and this together. What is given back
// has left the account when Ask returns.
func (a *Account) Ask(t *Terms, now Millis, need, waiting int64, behind Asks) Want {
	a.measure(t, now, waiting)
	w := a.reported(t, now, need > 0 && t.Consistency != Exact)
	w.Need, w.Waiting, w.Want, w.Next = need, waiting, waiting, behind == Ahead
	w.Fresh = a.Asked == 0 || now/t.Interval != a.Asked/t.Interval
	if t.Consistency != Exact {
		w.Want = max(waiting, a.want(t, now))
		if !t.trailing {
			w.Soon = a.reserve(t)
			if t.Far && !t.Refills && a.NextAsk > a.Asked { // it got a part, and will pause after another
				w.Soon = max(w.Soon, a.Rate*int64(a.trip+t.FarPause())/1000) // rounded down, as in soon
			}
			if waiting > 0 { // the next ask has to be answered, too, before these are spent
				w.Soon *= 2
			}
			w.Want = max(w.Want, waiting+w.Soon)
		}
	}
	w.Denied = a.takeDenied(t, now)
	a.Back.claim(t, now)
	a.Asked, a.Asking = now, true
	a.Spent = 0
	return w
}

// reported is a want with what goes back, what is owed, and what is known of the counter
// above, until that is as good as new.
func (a *Account) reported(t *Terms, now Millis, offer bool) (w Want) {
	if now < a.Reset {
		w.Left, w.Reset = a.Left, a.Reset-now
	}
	w.Unused, w.Lease = a.collect(t, now, offer)
	w.Overdrawn, w.Debt = a.seal(now)
	return w
}

// measure notes the demand since the last ask.
func (a *Account) measure(t *Terms, now Millis, waiting int64) {
	if a.Asked == 0 {
		return
	}
	since := max(now-a.Asked, t.Interval/4)
	rate := (a.Spent + a.Denied + waiting) * 1000 / int64(since)
	switch {
	case t.Far && rate < a.Rate && a.LimitedUntil > a.Asked: // children refuse, and report it later
		rate = (7*a.Rate + rate) / 8
	case a.Spent+a.Denied+waiting == 0:
		rate = a.Rate / 2 // to 0: a key that is not in use must not be asked for again and again
	case a.Rate > 0:
		rate = (a.Rate + rate + 1) / 2
	}
	a.Rate = rate
}

// soon is how many units requests will need while an ask is on its way. Where that takes less
// than a tenth of a lease interval, as within a region, it does not matter; nor where no request is
// expected, because what is kept for none is missing elsewhere: small limits would be used up by it.
func (a *Account) soon(t *Terms) int64 {
	if 10*a.trip < t.Interval || a.Rate*int64(a.trip) < 1000 {
		return 0
	}
	return a.during(a.trip)
}

// reserve is how many units are kept for the requests that come while an ask is on its way.
func (a *Account) reserve(t *Terms) int64 { return unevenly(a.soon(t)) }

// stock is how many units a far holder wants to have when an ask is answered: the next one may
// have to pause, and then be on its way, while requests for these come.
func (a *Account) stock(t *Terms) int64 { return unevenly(a.during(2*a.trip + t.FarPause())) }

// during is how many units requests will need in so long.
func (a *Account) during(d Millis) int64 { return (a.Rate*int64(d) + 999) / 1000 }

// unevenly is so many units and three standard deviations of a Poisson process: requests do not
// come evenly.
func unevenly(units int64) int64 { return units + int64(math.Ceil(3*math.Sqrt(float64(units)))) }

// want is the slow start, bounded by what the holder used in the last six lease
// intervals, two where the tier above is far (its use since the last ask, scaled), but at least
// wantFloor. What it refused counts as used: the use of a spent limit is less than the demand,
// and what is asked ahead for the next window should last beyond its beginning.
func (a *Account) want(t *Terms, now Millis) int64 {
	most := t.wantFloor()
	if t.Far && a.Asked == 0 { // the slow start would take as many ways there and back
		return most
	}
	if a.Asked > 0 {
		since := max(now-a.Asked, t.Interval/4)
		last := max(usageIntervals*t.Interval, 4*a.trip)
		if t.Far && t.Refills {
			last = farUsageIntervals * max(t.Interval, a.trip)
		}
		most = max(most, (a.Spent+a.Denied)*int64(last)/int64(since))
	}
	for a.WantLog2 > 0 && int64(1)<<(a.WantLog2-1) >= most {
		a.shrink()
	}
	least := max(a.reserve(t), 3*a.soon(t))
	if t.Far && least > 0 {
		least = a.stock(t)
	}
	return min(max(int64(1)<<a.WantLog2, least), most)
}

// collect takes lapsed units out of the account, of one lease at a time. With offer it
// also takes those that may still be spent, and takes them first. A lease that was too
// small for the next request lets the want grow; one that lapses lets it shrink.
func (a *Account) collect(t *Terms, now Millis, offer bool) (units int64, lease uint32) {
	first := -1
	for i := range a.Lots {
		if offer && a.Lots[i].spendable(now) && (first < 0 || a.Lots[i].Units > a.Lots[first].Units) {
			first = i
		}
	}
	if first >= 0 {
		lease = a.Lots[first].Lease
		a.grow()
	}
	for i := range a.Lots {
		lot := &a.Lots[i]
		lapsed := lot.lapsed(now)
		if !lapsed && (first < 0 || !lot.spendable(now)) || (first >= 0 || units > 0) && lot.Lease != lease {
			continue
		}
		if lapsed && 2*lot.Units > a.Size {
			a.shrink()
		}
		units, lease = units+lot.Units, lot.Lease
		lot.Units = 0
	}
	a.returned(t, Part{Units: units})
	return units, lease
}

// Report makes a want that asks for nothing and reports for an idle account: units to give
// back, overdrawn units. False if there is nothing to report, or asks fail.
func (a *Account) Report(t *Terms, now Millis) (Want, bool) {
	if a.Back.Off(now) {
		return Want{}, false
	}
	w := a.reported(t, now, false)
	w.Denied = a.takeDenied(t, now)
	some := w.Unused > 0 || w.Overdrawn > 0 || w.Denied > 0 && t.ChargesDenied
	if some {
		a.Back.claim(t, now)
	}
	return w, some
}

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
	a.Spent += g.Granted - spare
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
	a.Left = g.Remaining
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
		pause = t.FarPause() * jitter / 100
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
// after a reply that left nothing, and four trips more where the tier above is far. After a
// denial it is long enough that the next ask is sent after a refused request, so that no request
// waits for it, but it ends when the limit has units again.
func (a *Account) limited(t *Terms, now Millis, w Want, g Grant) {
	if g.StartsIn > 0 || g.Remaining > 0 && (g.Granted >= w.Want || !a.scarce(t, g)) { // see learn
		return
	}
	a.LimitedUntil = now + 2*t.Interval
	if t.Far {
		a.LimitedUntil += 4 * min(a.trip, longestTrip)
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

// Idle reports that the account may be forgotten: it has no units, nothing to report, and
// no denial that still stands.
func (a *Account) Idle(t *Terms, now Millis) bool {
	return a.Lots[0].idle(now) && a.Lots[1].idle(now) && a.Overdrawn == 0 &&
		!a.UnderWay(t, now) && (!t.Far || now >= a.Asked+farMemory) && now >= a.NextAsk && now >= a.LimitedUntil &&
		(a.DeniedNeed == 0 && !a.Refused || now >= a.Reset) &&
		!a.Sealed.Matters(now) && !a.Back.Matters(now) && !a.owesPenalty(t, now)
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
