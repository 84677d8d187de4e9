package lease

import "math"

// usageIntervals is over how many lease intervals a holder looks back at its use
// to bound what it wants.
const usageIntervals = 6

// farUsageIntervals is that of a holder far above, in intervals or in trips if these are longer. It
// asks ahead of a trip, so what it holds beyond that is kept from other regions for nothing.
const farUsageIntervals = 2

// rateMemory is over how long, beside the time since the last ask, a far holder averages its use if it asks
// more often than that: its children take units by the lease.
const rateMemory Millis = 250

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
				w.Soon = max(w.Soon, a.Rate*int64(a.trip+a.FarPause(t))/1000) // rounded down, as in soon
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

// reported is a want with what goes back and what is owed.
func (a *Account) reported(t *Terms, now Millis, offer bool) (w Want) {
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
	case t.Far && a.Rate > 0 && since < rateMemory:
		units := a.Spent + a.Denied + waiting
		rate = (a.Rate*int64(rateMemory) + 1000*units + int64(rateMemory+since) - 1) / int64(rateMemory+since)
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

// stock is how many units a far holder should have when an ask is answered: the next one may
// have to pause, and then be on its way, while requests for these come.
func (a *Account) stock(t *Terms) int64 { return unevenly(a.during(2*a.trip + a.FarPause(t))) }

// mostReplicas is how many replicas of a region ask together at most ten times a second. Beside more of
// them each would have to pause for longer than its leases of a small part last.
const mostReplicas = 3

// FarPause is how long a far holder waits with an ask that is not urgent: one that gives back, or
// follows a grant of less than was wanted while no request waits. Two or three replicas of a region ask
// nearly ten times a second together with it. Of a token bucket nearly every grant of a flood is such a part.
func (a *Account) FarPause(t *Terms) Millis {
	replicas := Millis(min(max(a.Replicas, 2), mostReplicas))
	if t.Refills {
		return (8*replicas - 7) * t.Interval / 4
	}
	return replicas * t.Interval
}

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

// Idle reports that the account may be forgotten: it has no units, nothing to report, and
// no denial that still stands.
func (a *Account) Idle(t *Terms, now Millis) bool {
	return a.Lots[0].idle(now) && a.Lots[1].idle(now) && a.Overdrawn == 0 &&
		!a.UnderWay(t, now) && (!t.Far || now >= a.Asked+farMemory) && now >= a.NextAsk && now >= a.LimitedUntil &&
		(a.DeniedNeed == 0 && !a.Refused || now >= a.Reset) &&
		!a.Sealed.Matters(now) && !a.Back.Matters(now) && !a.owesPenalty(t, now)
}
