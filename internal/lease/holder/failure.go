package holder

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
)

// Fail decides a request of cost units that the granter did not answer. If its need was denied, it stays rejected. Otherwise
// on_failure decides. Admitted units become a debt.
func (a *State) Fail(t *lease.Terms, now lease.Millis, f lease.Failure, cost int64) lease.Failed {
	if a.remembered(now, cost) {
		return lease.Failed{Denied: true, Reset: a.Reset - now, RetryAfter: a.Retry(t, now, cost)}
	}
	d := f.By.FailUncounted()
	d.Reset = max(0, a.Reset-now)
	owed := a.Overdrawn
	switch f.By {
	case lease.FailureAllow:
		a.Owe(t, cost)
	case lease.FailureLocal:
		if f.Guessed && now < a.Reset {
			f.Ends = a.Reset
		}
		d.Reset = f.Ends - now
		if d.Admitted = a.takeLocal(t, now, f.Ends, f.Share, cost); !d.Admitted {
			d.RetryAfter = d.Reset
		}
	}
	if d.Admitted {
		d.Unowed = cost - (a.Overdrawn - owed)
	}
	return d
}

// FailPeek is the decision of [State.Fail] on one unit. It changes nothing.
func (a *State) FailPeek(t *lease.Terms, now lease.Millis, f lease.Failure) lease.Failed {
	as := *a
	d := as.Fail(t, now, f, 1)
	d.Unowed = 0
	return d
}

// TakenBy is where the units of a request that Fail admitted came from, for [State.Refund].
func TakenBy(d *lease.Failed, cost int64) Taken {
	return Taken{Overdrawn: cost, Unowed: d.Unowed, Local: d.By == lease.FailureLocal}
}

// remembered reports whether a request stays rejected while the granter does not answer: its need was denied, or another
// request was rejected and this one costs more than the last reply left, less the overdrawn units. The holder's own units
// count, because the granter would only have to add the rest. It ends at Reset, when the counter is as good as new.
func (a *State) remembered(now lease.Millis, cost int64) bool {
	if now >= a.Reset {
		return false
	}
	missing := cost - a.Available(now)
	return a.Least > 0 && missing >= a.Least || a.Rejected && missing > max(0, a.Left-a.Overdrawn)
}

// takeLocal decides a request by the holder's own share of the limit while the granter does not answer: share units until
// ends, the end of the window on the holder's clock. Admitted units are overdrawn, and reported when the granter answers
// again. The share, used or not, is kept then, so that repeated failures do not renew it within a window. It ends early only
// if a lease needs its place.
func (a *State) takeLocal(t *lease.Terms, now, ends lease.Millis, share, cost int64) bool {
	i := slices.IndexFunc(a.Leases[:], func(l Lease) bool { return l.Sharing(now) })
	if i < 0 {
		i = max(a.Place(now), 0) // what it held is lost: it cannot be given back now
		a.Leases[i] = Lease{Units: share, Expiry: ends, Local: true}
	}
	if a.Leases[i].Units < cost {
		a.Denied = lease.Sum(a.Denied, cost)
		return false
	}
	a.Leases[i].Units -= cost
	a.Owe(t, cost)
	return true
}

// Owe admits units that no lease covers, and reports them when the granter answers again. The debt grows to at most one limit,
// unless an optimistic holder already owes more.
func (a *State) Owe(t *lease.Terms, units int64) {
	a.Overdrawn += min(units, max(0, t.Capacity-a.Overdrawn))
	a.Spent = lease.Sum(a.Spent, units)
}
