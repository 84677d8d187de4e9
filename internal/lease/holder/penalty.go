package holder

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Deny records units of requests that the holder rejected. If the rule charges rejected units
// ([lease.Terms.ChargesRejected]), they use up the holder's leases, and the next want reports the rest.
func (a *State) Deny(t *lease.Terms, now lease.Millis, units int64) {
	if units <= 0 {
		return
	}
	a.Rejected = true
	if t.ChargesRejected {
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

// forfeit takes up to so many units out of the spendable lots. They are spent on rejected requests.
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

// penalize follows the reply g to want w. If the rule charges rejected units, the granter has charged a denied need. The need
// was larger than all units that granter and holder had, so it uses up the holder's leases.
func (a *State) penalize(t *lease.Terms, now lease.Millis, w lease.Want, g lease.Grant) {
	if t.ChargesRejected && w.Need > 0 && g.Status == lease.Denied {
		a.forfeit(now, a.Available(now))
	}
}

// TakeDenied takes out the rejected units that a want reports. If they are charged, those of a window that is over are
// dropped, because they would be charged to the next window.
func (a *State) TakeDenied(t *lease.Terms, now lease.Millis) (units int64) {
	if units = a.Denied; t.ChargesRejected && !a.owesPenalty(t, now) {
		units = 0
	}
	a.Denied = 0
	return units
}

// owesPenalty reports whether rejected units must be reported, because the granter charges them. At the end of a window they
// are not reported: the end is known only to within a round trip, and the penalty would end with the window.
func (a *State) owesPenalty(t *lease.Terms, now lease.Millis) bool {
	if !t.ChargesRejected || a.Denied == 0 {
		return false
	}
	margin := min(t.Interval, lease.Millis(t.Window/limit.Millisecond)/10)
	return t.Window == 0 || a.Reset == 0 || now < a.Reset-margin
}
