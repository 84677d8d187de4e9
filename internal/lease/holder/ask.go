package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// UsageIntervals bounds a want: a holder wants at most the use in so many lease intervals.
const UsageIntervals = 6

// Ask makes the want to send and records that it is under way. need and waiting are the units of the cheapest and of all
// requests that wait for this account, 0 if none waits. If requests wait, the holder gives back its units, which were not
// enough: the granter compares the need with these units and those it has left. When Ask returns, the units have left the
// holder.
func (a *State) Ask(t *lease.Terms, now lease.Millis, need, waiting int64, behind Asks) lease.Want {
	w := a.Begin(t, now, need, waiting, behind)
	if t.Consistency != lease.Exact {
		w.Want = max(waiting, a.Want(t, now, UsageIntervals*t.Interval, 0))
	}
	return a.Sends(t, now, w)
}

// Begin is a want for the requests that wait, with the units that go back and the debt.
func (a *State) Begin(t *lease.Terms, now lease.Millis, need, waiting int64, behind Asks) lease.Want {
	w := a.reported(t, now, need > 0 && t.Consistency != lease.Exact)
	w.Need, w.Waiting, w.Want, w.Next = need, waiting, waiting, behind == Ahead
	w.Fresh = a.Asked == 0 || now/t.Interval != a.Asked/t.Interval
	return w
}

// Sends records that w is under way. If it asks for a denied key of an exact rule, other requests are rejected for an interval.
func (a *State) Sends(t *lease.Terms, now lease.Millis, w lease.Want) lease.Want {
	w.Denied = a.TakeDenied(t, now)
	a.Back.claim(t, now)
	a.Asked, a.Asking, a.Spent = now, true, 0
	if t.Consistency == lease.Exact && a.Phase == PhaseDenied && w.Need >= a.Least {
		a.Ends = max(a.Ends, now+t.Interval)
	}
	return w
}

// reported is a want with the units that go back and the debt.
func (a *State) reported(t *lease.Terms, now lease.Millis, offer bool) (w lease.Want) {
	w.Unused, w.Lease = a.collect(t, now, offer)
	w.Overdrawn, w.Debt = a.seal(now)
	return w
}

// Want is the size of the next want by the slow start. Its upper bound is the use since the last ask, scaled to the time
// last, and at least [lease.Terms.WantFloor]. Rejected units count as used, because the use of a key that is over its limit is
// less than the demand. least is a lower bound, unless the upper one is smaller.
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
	case ending && (!low && available > 0 || a.Rejects(t, now, 1)):
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

// collect takes the lapsed units of one lease out of the holder. With offer it first takes units that may still be spent. A
// lease that was too small for the next request lets the want grow. A lease that lapsed lets it shrink.
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

// Report makes a want that asks for nothing and reports the units to give back and the debt of an idle account. It returns
// false if there is nothing to report, or while asks fail.
func (a *State) Report(t *lease.Terms, now lease.Millis) (lease.Want, bool) {
	if a.Back.Off(now) {
		return lease.Want{}, false
	}
	w := a.reported(t, now, false)
	w.Denied = a.TakeDenied(t, now)
	some := w.Unused > 0 || w.Overdrawn > 0 || w.Denied > 0 && t.ChargesRejected
	if some {
		a.Back.claim(t, now)
	}
	return w, some
}

// Idle reports whether the holder may be evicted: it has no units, nothing to report, and no denial that stands.
func (a *State) Idle(t *lease.Terms, now lease.Millis) bool {
	return a.Leases[0].idle(now) && a.Leases[1].idle(now) && a.Overdrawn == 0 &&
		!a.UnderWay(t, now) && (a.Phase == PhaseNone || now >= a.Ends+t.Interval) &&
		(a.Least == 0 && !a.Rejected || now >= a.Reset) &&
		!a.Sealed.Matters(now) && !a.Back.Matters(now) && !a.owesPenalty(t, now)
}
