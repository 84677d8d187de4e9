package holder

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
)

// Fail decides a request of cost units that the tier above did not answer: what was
// denied stays denied, on_failure decides the rest. What is admitted is owed.
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

// FailPeek is what [State.Fail] would decide on one unit. It changes nothing.
func (a *State) FailPeek(t *lease.Terms, now lease.Millis, f lease.Failure) lease.Failed {
	as := *a
	d := as.Fail(t, now, f, 1)
	d.Unowed = 0
	return d
}

// TakenBy is what the request took, for [State.Refund].
func TakenBy(d *lease.Failed, cost int64) Taken {
	return Taken{Overdrawn: cost, Unowed: d.Unowed, Local: d.By == lease.FailureLocal}
}

// remembered reports whether a request stays refused while the tier above does not answer:
// its need was denied, or any request was refused and this one costs more than the last reply
// left, less what has been admitted without a lease. What the holder holds counts: the
// tier above would have had to add only the rest. It ends at Reset, when the counter above
// is as good as new: a request is refused by mistake until then at most.
func (a *State) remembered(now lease.Millis, cost int64) bool {
	if now >= a.Reset {
		return false
	}
	missing := cost - a.Available(now)
	return a.Least > 0 && missing >= a.Least || a.Refused && missing > max(0, a.Left-a.Overdrawn)
}

// takeLocal decides a request by the holder's own share of the limit, for as long
// as the tier above does not answer: share units until ends, the end of the
// window on the holder's clock. What it admits counts as overdrawn and is
// reported when the tier above answers again. The share, spent or not, is kept then, so
// that a tier that fails repeatedly does not renew it within a window; it ends only if a
// lease needs its place.
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

// Owe admits units that no lease covers, to be reported when the tier above answers again: at
// most one limit, however long that takes. An optimistic holder may owe more already.
func (a *State) Owe(t *lease.Terms, units int64) {
	a.Overdrawn += min(units, max(0, t.Capacity-a.Overdrawn))
	a.Spent = lease.Sum(a.Spent, units)
}
