package lease

import "github.com/weirlimit/weir/internal/limit"

// Deny notes units that were refused by what is known of the tier above. Where these are
// charged ([Terms.ChargesDenied]) they use up what the slot holds at once, and the tier
// above hears of the rest with the next want.
func (s *Account) Deny(t *Terms, now Millis, units int64) {
	if units <= 0 {
		return
	}
	s.Refused = true
	if t.ChargesDenied {
		units -= s.forfeit(now, units)
		s.lower(t, now, units)
	}
	s.Denied += units
}

// forfeit takes up to so many units out of the live lots: they are spent on requests
// that were refused.
func (s *Account) forfeit(now Millis, units int64) (taken int64) {
	for i := range s.Lots {
		if lot := &s.Lots[i]; lot.live(now) && !lot.Local {
			n := min(units-taken, lot.Units)
			lot.Units -= n
			taken += n
		}
	}
	s.Spent += taken
	return taken
}

// lower notes that so many units fewer are left above than the last reply said; their
// debt is at most one limit.
func (s *Account) lower(t *Terms, now Millis, units int64) {
	s.Left = max(0, s.Left-units)
	if s.DeniedNeed > 0 {
		s.DeniedNeed = min(s.DeniedNeed, s.Left+1)
	}
	if t.Refills {
		full := now + Millis(2*float64(t.Capacity)*t.Unit)
		s.Reset = max(s.Reset, min(max(s.Reset, now)+Millis(float64(units)*t.Unit), full))
	}
}

// penalize follows the reply g to want w: where denials are charged the tier above has
// charged a denied need, which was more than there was. What the slot holds was part of it.
func (s *Account) penalize(t *Terms, now Millis, w Want, g Grant) {
	if t.ChargesDenied && w.Need > 0 && g.Status == Denied {
		s.forfeit(now, s.Available(now))
	}
}

// takeDenied takes out the refused units that a want tells. Where they are charged, those
// of a window that is over are nobody's any more, and charged to the next they would use
// that up.
func (s *Account) takeDenied(t *Terms, now Millis) (units int64) {
	if units = s.Denied; t.ChargesDenied && !s.owesPenalty(t, now) {
		units = 0
	}
	s.Denied = 0
	return units
}

// owesPenalty reports whether the tier above has to hear of refused units, because it
// charges them. Not at the end of a window: when that comes is known but for the time that
// a reply takes, and what is refused just then matters to nobody.
func (s *Account) owesPenalty(t *Terms, now Millis) bool {
	if !t.ChargesDenied || s.Denied == 0 {
		return false
	}
	margin := min(t.Interval, Millis(t.Window/limit.Millisecond)/10)
	return t.Window == 0 || s.Reset == 0 || now < s.Reset-margin
}
