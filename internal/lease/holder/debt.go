package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// debtMemory is how long the number of a batch is kept after it was acknowledged, so that
// no other batch gets it: longer than the clocks of processes that share an account differ.
const debtMemory lease.Millis = 1000

// Debt is a batch of units that were admitted without a lease. It is sealed when it is first
// reported to the tier above. From then on every want reports it, with the same number,
// until a reply acknowledges it: by the number that tier recognizes a repetition, and
// charges the debt once. Units admitted later go into the next batch.
type Debt struct {
	Units int64 // 0: none is to be acknowledged
	// Number is when the batch was sealed, but larger than that of the batch before:
	// unique per holder and key.
	Number lease.Millis
}

// Matters reports whether the batch must be kept: it is not acknowledged yet, or its number
// could be given a second time.
func (d *Debt) Matters(now lease.Millis) bool {
	return d.Units > 0 || d.Number > 0 && now < d.Number+debtMemory
}

// seal returns the part of the debt that a want reports, and the number that names it; 0
// units if nothing is owed.
func (a *State) seal(now lease.Millis) (units int64, number uint64) {
	if a.Sealed.Units == 0 {
		if a.Overdrawn == 0 {
			return 0, 0
		}
		a.Sealed = Debt{Units: a.Overdrawn, Number: max(now, a.Sealed.Number+1)}
	}
	return a.Sealed.Units, uint64(a.Sealed.Number)
}

// DropDebt drops all overdrawn units, which will never be charged, and returns how many there were.
func (a *State) DropDebt() (units int64) {
	units = a.Overdrawn
	a.Overdrawn, a.Sealed.Units = 0, 0
	return units
}

// paid clears the batch that a reply acknowledges. A late reply to an older want clears
// nothing, and neither does that of a tier that could not charge the batch.
func (a *State) paid(w lease.Want, g lease.Grant) {
	if w.Overdrawn > 0 && w.Debt == uint64(a.Sealed.Number) && !g.StillOwed {
		a.Overdrawn -= a.Sealed.Units
		a.Sealed.Units = 0
	}
}
