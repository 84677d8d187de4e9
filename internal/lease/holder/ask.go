package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// UsageIntervals is over how many lease intervals a holder looks back at its use
// to bound what it wants.
const UsageIntervals = 6

// Ask makes the want to send and notes that it is under way. need and waiting are the units
// of the cheapest and of all requests that wait for this account, 0 if none waits. If
// requests wait, the holder gives back what it has: that was not enough, and the tier
// above compares the need with what is left there and this together. What is given back
// has left the holder when Ask returns.
func (a *State) Ask(t *lease.Terms, now lease.Millis, need, waiting int64, behind Asks) lease.Want {
	w := a.Begin(t, now, need, waiting, behind)
	if t.Consistency != lease.Exact {
		w.Want = max(waiting, a.Want(t, now, UsageIntervals*t.Interval, 0))
	}
	return a.Sends(t, now, w)
}

// Begin is a want for what waits, with what goes back and what is owed.
func (a *State) Begin(t *lease.Terms, now lease.Millis, need, waiting int64, behind Asks) lease.Want {
	w := a.reported(t, now, need > 0 && t.Consistency != lease.Exact)
	w.Need, w.Waiting, w.Want, w.Next = need, waiting, waiting, behind == Ahead
	w.Fresh = a.Asked == 0 || now/t.Interval != a.Asked/t.Interval
	return w
}

// Sends notes that w is under way.
func (a *State) Sends(t *lease.Terms, now lease.Millis, w lease.Want) lease.Want {
	w.Denied = a.takeDenied(t, now)
	a.Back.claim(t, now)
	a.Asked, a.Asking = now, true
	a.Spent = 0
	return w
}

// reported is a want with what goes back and what is owed.
func (a *State) reported(t *lease.Terms, now lease.Millis, offer bool) (w lease.Want) {
	w.Unused, w.Lease = a.collect(t, now, offer)
	w.Overdrawn, w.Debt = a.seal(now)
	return w
}

// Want is the slow start, bounded by what the holder used in the last while (its use since the last ask,
// scaled), but at least wantFloor. What it refused counts as used: the use of a spent limit is less than
// the demand, and what is asked ahead for the next window should last beyond its beginning. least is
// what the holder wants within that bound though it starts slowly.
func (a *State) Want(t *lease.Terms, now, last lease.Millis, least int64) int64 {
	most := t.WantFloor()
	if a.Asked > 0 {
		since := max(now-a.Asked, t.Interval/4)
		most = max(most, (a.Spent+a.Denied)*int64(last)/int64(since))
	}
	for a.WantLog2 > 0 && int64(1)<<(a.WantLog2-1) >= most {
		a.shrink()
	}
	return min(max(int64(1)<<a.WantLog2, least), most)
}

// Prefetch decides whether to ask while no request waits: a quarter of the newest
// lease or less is left, or the window ends soon and none of the next is held.
func (a *State) Prefetch(t *lease.Terms, now lease.Millis) Asks {
	if a.UnderWay(t, now) || a.Back.Off(now) || now < a.PausedUntil(t) {
		return NoAsk
	}
	available := a.Available(now)
	low, ending := 4*available <= a.Size, a.ending(t, now)
	switch {
	case ending && (!low && available > 0 || a.Refuses(t, now, 1)):
		return Ahead
	case low, ending:
		return TopUp
	}
	return NoAsk
}

// ending reports whether the window ends soon and no lease of the next is held, but could be.
func (a *State) ending(t *lease.Terms, now lease.Millis) bool {
	old, young := &a.Leases[0], &a.Leases[1]
	holds := old.Units > 0 && (young.Units > 0 || old.From > now) || young.Units > 0 && young.From > now
	return t.Lead > 0 && a.Reset > now && now >= a.Reset-t.Lead && !holds
}

// collect takes lapsed units out of the holder, of one lease at a time. With offer it
// also takes those that may still be spent, and takes them first. A lease that was too
// small for the next request lets the want grow; one that lapses lets it shrink.
func (a *State) collect(t *lease.Terms, now lease.Millis, offer bool) (units int64, lease uint32) {
	first := -1
	for i := range a.Leases {
		if offer && a.Leases[i].Spendable(now) && (first < 0 || a.Leases[i].Units > a.Leases[first].Units) {
			first = i
		}
	}
	if first >= 0 {
		lease = a.Leases[first].Lease
		a.Grow()
	}
	for i := range a.Leases {
		lot := &a.Leases[i]
		lapsed := lot.lapsed(now)
		if !lapsed && (first < 0 || !lot.Spendable(now)) || (first >= 0 || units > 0) && lot.Lease != lease {
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
func (a *State) Report(t *lease.Terms, now lease.Millis) (lease.Want, bool) {
	if a.Back.Off(now) {
		return lease.Want{}, false
	}
	w := a.reported(t, now, false)
	w.Denied = a.takeDenied(t, now)
	some := w.Unused > 0 || w.Overdrawn > 0 || w.Denied > 0 && t.ChargesDenied
	if some {
		a.Back.claim(t, now)
	}
	return w, some
}

// Idle reports that the holder may be forgotten: it has no units, nothing to report, and
// no denial that still stands.
func (a *State) Idle(t *lease.Terms, now lease.Millis) bool {
	return a.Leases[0].idle(now) && a.Leases[1].idle(now) && a.Overdrawn == 0 &&
		!a.UnderWay(t, now) && (a.Phase == PhaseNone || now >= a.Ends+t.Interval) &&
		(a.Least == 0 && !a.Refused || now >= a.Reset) &&
		!a.Sealed.Matters(now) && !a.Back.Matters(now) && !a.owesPenalty(t, now)
}
