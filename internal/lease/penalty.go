package lease

import "github.com/weirlimit/weir/internal/limit"

// Deny notes units that were refused by what is known of the tier above. Where these are
// charged ([Terms.ChargesDenied]) they use up what the account holds at once, and the next
// want reports the rest to the tier above.
func (a *Account) Deny(t *Terms, now Millis, units int64) {
	if units <= 0 {
		return
	}
	a.Refused = true
	if t.ChargesDenied {
		units -= a.forfeit(now, units)
		a.Left = max(0, a.Left-units)
		if a.DeniedNeed > 0 {
			a.DeniedNeed = min(a.DeniedNeed, a.Left+1)
		}
		if t.Refills { // the debt of a bucket is at most one limit
			full := now + Millis(2*float64(t.Capacity)*t.Unit)
			a.Reset = max(a.Reset, min(max(a.Reset, now)+Millis(float64(units)*t.Unit), full))
		}
	}
	a.Denied = Sum(a.Denied, units)
}

// forfeit takes up to so many units out of the live lots: they are spent on requests
// that were refused.
func (a *Account) forfeit(now Millis, units int64) (taken int64) {
	for i := range a.Lots {
		if lot := &a.Lots[i]; lot.spendable(now) {
			n := min(units-taken, lot.Units)
			lot.Units -= n
			taken += n
		}
	}
	a.Spent = Sum(a.Spent, taken)
	return taken
}

// penalize follows the reply g to want w. Where denials are charged the tier above has
// charged a denied need, which was more than it had and includes what the account holds.
func (a *Account) penalize(t *Terms, now Millis, w Want, g Grant) {
	if t.ChargesDenied && w.Need > 0 && g.Status == Denied {
		a.forfeit(now, a.Available(now))
	}
}

// takeDenied takes out the refused units that a want reports. Where they are charged, those
// of a window that is over are dropped: otherwise they would be charged to the next one.
func (a *Account) takeDenied(t *Terms, now Millis) (units int64) {
	if units = a.Denied; t.ChargesDenied && !a.owesPenalty(t, now) {
		units = 0
	}
	a.Denied = 0
	return units
}

// owesPenalty reports whether refused units have to be reported to the tier above, because
// it charges them. At the end of a window they are not: when it ends is known only up to
// the time that a reply takes, and the penalty would end with it.
func (a *Account) owesPenalty(t *Terms, now Millis) bool {
	if !t.ChargesDenied || a.Denied == 0 {
		return false
	}
	margin := min(t.Interval, Millis(t.Window/limit.Millisecond)/10)
	return t.Window == 0 || a.Reset == 0 || now < a.Reset-margin
}

// denies is how many units are refused with a want that a relay denies: those of all requests that
// wait. Where they are charged, one denial charges its need alone, as the tier above does.
func (w *Want) denies(t *Terms) int64 {
	if t.ChargesDenied {
		return w.Need
	}
	return w.Waiting
}
