package holder

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Deny notes units that were refused by what is known of the tier above. Where these are
// charged ([lease.Terms.ChargesDenied]) they use up what the holder holds at once, and the next
// want reports the rest to the tier above.
func (a *State) Deny(t *lease.Terms, now lease.Millis, units int64) {
	if units <= 0 {
		return
	}
	a.Refused = true
	if t.ChargesDenied {
		units -= a.forfeit(now, units)
		a.Left = max(0, a.Left-units)
		if a.Least > 0 {
			a.Least = min(a.Least, a.Left+1)
		}
		if t.Refills { // the debt of a bucket is at most one limit
			full := now + lease.Millis(2*float64(t.Capacity)*t.Unit)
			a.Reset = max(a.Reset, min(max(a.Reset, now)+lease.Millis(float64(units)*t.Unit), full))
		}
	}
	a.Denied = lease.Sum(a.Denied, units)
}

// forfeit takes up to so many units out of the live lots: they are spent on requests
// that were refused.
func (a *State) forfeit(now lease.Millis, units int64) (taken int64) {
	for i := range a.Leases {
		if lot := &a.Leases[i]; lot.Spendable(now) {
			n := min(units-taken, lot.Units)
			lot.Units -= n
			taken += n
		}
	}
	a.Spent = lease.Sum(a.Spent, taken)
	return taken
}

// penalize follows the reply g to want w. Where denials are charged the tier above has
// charged a denied need, which was more than it had and includes what the holder holds.
func (a *State) penalize(t *lease.Terms, now lease.Millis, w lease.Want, g lease.Grant) {
	if t.ChargesDenied && w.Need > 0 && g.Status == lease.Denied {
		a.forfeit(now, a.Available(now))
	}
}

// takeDenied takes out the refused units that a want reports. Where they are charged, those
// of a window that is over are dropped: otherwise they would be charged to the next one.
func (a *State) takeDenied(t *lease.Terms, now lease.Millis) (units int64) {
	if units = a.Denied; t.ChargesDenied && !a.owesPenalty(t, now) {
		units = 0
	}
	a.Denied = 0
	return units
}

// owesPenalty reports whether refused units have to be reported to the tier above, because
// it charges them. At the end of a window they are not: when it ends is known only up to
// the time that a reply takes, and the penalty would end with it.
func (a *State) owesPenalty(t *lease.Terms, now lease.Millis) bool {
	if !t.ChargesDenied || a.Denied == 0 {
		return false
	}
	margin := min(t.Interval, lease.Millis(t.Window/limit.Millisecond)/10)
	return t.Window == 0 || a.Reset == 0 || now < a.Reset-margin
}
