package lease

// debtMemory is how long after it was acknowledged the number of a batch is kept, so
// that no other one gets it: longer than the clocks of those who share a slot differ.
const debtMemory Millis = 1000

// Debt is a batch of units that were admitted without a lease, sealed when it is first
// told to the tier above: from then on it is told in every want, with the same number,
// until a reply acknowledges it. So that tier can tell a repetition from another debt,
// and charges it once. Units admitted later go into the next batch.
type Debt struct {
	Units int64 // 0: none is to be acknowledged
	// Number is when the batch was sealed, but larger than that of the batch before:
	// unique per holder and key.
	Number Millis
}

// Matters reports whether a slot without this batch would not be the same: it is to be
// acknowledged, or its number could be given a second time.
func (d *Debt) Matters(now Millis) bool {
	return d.Units > 0 || d.Number > 0 && now < d.Number+debtMemory
}

// seal returns what of the debt a want tells, and the number that names it. Nothing is
// owed if there are no units.
func (s *Account) seal(now Millis) (units int64, number uint64) {
	if s.Sealed.Units == 0 {
		if s.Overdrawn == 0 {
			return 0, 0
		}
		s.Sealed = Debt{Units: s.Overdrawn, Number: max(now, s.Sealed.Number+1)}
	}
	return s.Sealed.Units, uint64(s.Sealed.Number)
}

// Forgive drops all that is owed, and says how much that was: nobody will ever charge it.
func (s *Account) Forgive() (units int64) {
	units = s.Overdrawn
	s.Overdrawn, s.Sealed.Units = 0, 0
	return units
}

// paid clears the batch that a reply acknowledges: a late reply to an older want, or
// one of a tier that could not charge it, clears nothing.
func (s *Account) paid(w Want, g Grant) {
	if w.Overdrawn > 0 && w.Debt == uint64(s.Sealed.Number) && !g.StillOwed {
		s.Overdrawn -= s.Sealed.Units
		s.Sealed.Units = 0
	}
}
