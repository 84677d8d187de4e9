package fair

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// A region reports what it gives back and what it owes, and nobody can check either: a lease that
// was spent looks like one that was not. So the account bounds what a false report does. What comes
// back is at most what the region was granted and did not give back yet, so that no region gives
// back what others have. What a region owes is at most its part of the limit, so that the others
// can still get theirs.

// Dropped is what of a want does not count.
type Dropped struct {
	Returned int64 // units given back that the region does not have of that window
	Owed     int64 // units owed beyond the region's part
	// Penalty is true if the need must not be charged when it is denied: with charge_rejected that
	// is a debt, too.
	Penalty bool
}

// settle cuts what a want gives back to what the region has, and what it owes to what is left of
// the region's part; r is nil for a region of which nothing is kept, which has and may owe nothing.
func (s *Shares) settle(l *limit.Limit, t *lease.Terms, r *region, part int64, w *lease.Want) (d Dropped) {
	back, owed := int64(0), int64(0)
	if r != nil {
		if !t.Lies(w.Unused) {
			back = s.takeBack(l, t, r, w)
		}
		owed = s.owe(l, r, part, w.Overdrawn)
	}
	d.Returned, d.Owed = w.Unused-back, w.Overdrawn-owed
	w.Unused, w.Overdrawn = back, owed
	return d
}

// penalize cuts what a want charges for rejected requests to what is left of the region's part. A need
// that fits into it counts until [Shares.Granted] shows that it was not denied. It reports whether the
// need does not fit.
func (s *Shares) penalize(l *limit.Limit, r *region, part int64, w *lease.Want) bool {
	if !l.ChargesRejected() {
		return false
	}
	if r == nil {
		w.Denied = 0
		return w.Need > 0
	}
	w.Denied = s.owe(l, r, part, w.Denied)
	if w.Need > part-s.owed(l, r) {
		return true
	}
	r.owed += w.Need
	return false
}

// owe notes a debt, and returns how much of it fits into what is left of the region's part. A debt that the
// region repeats counts again: that takes room from itself alone.
func (s *Shares) owe(l *limit.Limit, r *region, part, units int64) int64 {
	units = max(0, min(units, part-s.owed(l, r)))
	r.owed += units
	r.credit -= float64(units)
	return units
}

// owed is what a region owes in a period. Where periods of the account are not those of the counter, that
// of the period before counts as well, so that no period of the counter has more.
func (s *Shares) owed(l *limit.Limit, r *region) int64 {
	if byClock(l) {
		return r.owed
	}
	return r.owed + r.owedBefore
}

// byClock reports whether a limit has windows that are those of the account.
func byClock(l *limit.Limit) bool {
	s := l.Spec()
	return s.Algorithm == limit.FixedWindow && s.Align == limit.AlignClock
}

// debtPeriod is in what time a region may owe its part once: a window, or what fills a bucket.
func debtPeriod(l *limit.Limit, t *lease.Terms) limit.Micros {
	if rate := rateOf(l); t.Refills && rate > 0 {
		return limit.Micros(min(max(float64(t.Capacity)/rate, float64(limit.Millisecond)), float64(limit.MaxPeriod)))
	}
	return max(l.Spec().Period, limit.Millisecond)
}

// forgetDebts forgets those of periods that are over.
func (s *Shares) forgetDebts(l *limit.Limit, t *lease.Terms, now limit.Micros) {
	period := int64(now / debtPeriod(l, t))
	if l.Spec().Calendar != nil {
		start, _ := l.WindowAt(now)
		period = int64(start)
	}
	if period == s.debts {
		return
	}
	for i := range s.regions {
		r := &s.regions[i]
		if r.owedBefore = r.owed; period != s.debts+1 {
			r.owedBefore = 0
		}
		r.owed = 0
	}
	s.debts = period
}

// takeBack takes what comes back out of what the region has, and returns how much that is. Tokens that
// come back stay meant for the region: otherwise those with little demand, who give back most, would lose
// them to the others.
func (s *Shares) takeBack(l *limit.Limit, t *lease.Terms, r *region, w *lease.Want) (units int64) {
	take := func(has *float64) {
		n := min(float64(w.Unused-units), *has)
		*has -= n
		units += int64(n)
	}
	switch algorithm := l.Spec().Algorithm; {
	case t.Refills:
		take(&r.used)
		r.credit = min(r.credit+float64(units), max(r.credit, r.largestCredit(l)))
	case algorithm == limit.SlidingLog, w.Lease == s.window: // a lease on a log is no window, but it is short
		take(&r.used)
	case algorithm == limit.SlidingWindow && w.Lease == s.former:
		take(&r.before)
	case w.Lease == l.PeriodID(s.ends):
		take(&r.ahead)
	}
	return units
}
