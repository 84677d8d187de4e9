package lease

import (
	"slices"

	"github.com/weirlimit/weir/internal/limit"
)

// Failure is how a holder decides while the tier above does not answer.
type Failure struct {
	By OnFailure
	// Share is for FailureLocal: how many units the holder admits by itself until the end of
	// the window, see [OnFailure.Among].
	Share int64
	ends  Millis // of the window
}

// Failed is the decision on a request that the tier above did not answer. Reset and
// RetryAfter are durations.
type Failed struct {
	Admitted bool
	By       OnFailure // that decided, unless Denied
	Denied   bool      // the tier above had denied it, and its counter is not new yet
	Reset    Millis    // until the counter is as good as new, or until the share is
	// RetryAfter is, for a request that is refused, when it should come back; 0: not
	// known, because it depends on when the tier above answers again.
	RetryAfter Millis
	// Unowed is what of the cost is not owed for though it was admitted: the debt is one
	// limit already, see [Taken].
	Unowed int64
}

// Among returns what f does at one of the holders that share a limit. Each of them enforces an equal
// part of it, rounded up. live is their number; if it is 0 or less it is not known, and expected
// counts, at least one. now is the holder's clock, and wall the time of day: windows start at
// multiples of the period. Their end is rounded up to a millisecond: were it rounded down, a share
// would be renewed just before its window ends, and could be spent twice in it.
func (f OnFailure) Among(live int, expected int64, s limit.Spec, now Millis, wall limit.Micros) Failure {
	d := Failure{By: f}
	if f != FailureLocal {
		return d
	}
	n := int64(live)
	if n <= 0 {
		n = max(expected, 1)
	}
	d.Share = (s.Count + n - 1) / n
	if s.Period > 0 {
		d.ends = now + CeilMillis(s.Period-wall%s.Period)
	}
	return d
}

// Fail decides a request of cost units that the tier above did not answer: what was
// denied stays denied, on_failure decides the rest. What is admitted is owed.
func (a *Account) Fail(t *Terms, now Millis, f Failure, cost int64) Failed {
	if a.remembered(now, cost) {
		return Failed{Denied: true, Reset: a.Reset - now, RetryAfter: a.Retry(t, now, cost)}
	}
	d := f.By.FailUncounted()
	d.Reset = max(0, a.Reset-now)
	owed := a.Overdrawn
	switch f.By {
	case FailureAllow:
		a.overdraw(t, cost)
	case FailureLocal:
		d.Reset = f.ends - now
		if d.Admitted = a.takeLocal(t, now, f.ends, f.Share, cost); !d.Admitted {
			d.RetryAfter = d.Reset
		}
	}
	if d.Admitted {
		d.Unowed = cost - (a.Overdrawn - owed)
	}
	return d
}

// FailPeek is what [Account.Fail] would decide on one unit. It changes nothing.
func (a *Account) FailPeek(t *Terms, now Millis, f Failure) Failed {
	as := *a
	d := as.Fail(t, now, f, 1)
	d.Unowed = 0
	return d
}

// FailSlots decides a request of cost slots that the tier above did not answer, while the
// holder uses some and others are free: under FailureLocal it may use its share, whatever
// it holds.
func (f Failure) FailSlots(free, inUse, cost int64) Failed {
	d := f.By.FailUncounted()
	if f.By == FailureLocal {
		d.Admitted = max(free, f.Share-inUse) >= cost
	}
	return d
}

// FailUncounted decides by on_failure where nothing that is admitted can be counted: allow
// admits, deny and local refuse.
func (f OnFailure) FailUncounted() Failed {
	return Failed{Admitted: f == FailureAllow, By: f}
}

// Taken is what the request took, for [Account.Untake].
func (d *Failed) Taken(cost int64) Taken {
	return Taken{Overdrawn: cost, Unowed: d.Unowed, Local: d.By == FailureLocal}
}

// remembered reports whether a request stays refused while the tier above does not answer:
// its need was denied, or any request was refused and this one costs more than the last reply
// left, less what has been admitted without a lease. What the account holds counts: the
// tier above would have had to add only the rest. It ends at Reset, when the counter above
// is as good as new: a request is refused by mistake until then at most.
func (a *Account) remembered(now Millis, cost int64) bool {
	if now >= a.Reset {
		return false
	}
	missing := cost - a.Available(now)
	return a.DeniedNeed > 0 && missing >= a.DeniedNeed || a.Refused && missing > max(0, a.Left-a.Overdrawn)
}

// takeLocal decides a request by the holder's own share of the limit, for as long
// as the tier above does not answer: share units until ends, the end of the
// window on the holder's clock. What it admits counts as overdrawn and is
// reported when the tier above answers again. The share, spent or not, is kept then, so
// that a tier that fails repeatedly does not renew it within a window; it ends only if a
// lease needs its place.
func (a *Account) takeLocal(t *Terms, now, ends Millis, share, cost int64) bool {
	i := slices.IndexFunc(a.Lots[:], func(l Lot) bool { return l.Sharing(now) })
	if i < 0 {
		i = max(a.place(now), 0) // what it held is lost: it cannot be given back now
		a.Lots[i] = Lot{Units: share, Expiry: ends, Local: true}
	}
	if a.Lots[i].Units < cost {
		a.Denied = Sum(a.Denied, cost)
		return false
	}
	a.Lots[i].Units -= cost
	a.overdraw(t, cost)
	return true
}

// Owe adds units that were admitted without the tier above, by whoever counts them, to what is reported to it: at
// most one limit.
func (a *Account) Owe(t *Terms, units int64) { a.overdraw(t, units) }

// overdraw admits a request that no lease covers, to be reported when the tier
// above answers again: at most one limit, however long that takes. An optimistic
// holder may owe more already.
func (a *Account) overdraw(t *Terms, cost int64) {
	a.Overdrawn += min(cost, max(0, t.Capacity-a.Overdrawn))
	a.Spent = Sum(a.Spent, cost)
}
