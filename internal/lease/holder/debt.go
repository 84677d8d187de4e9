package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// debtMemory is how long the number of a batch is kept after it was acknowledged, so that no other batch gets the same number.
// It is longer than the clocks of the processes that share an account differ.
const debtMemory lease.Millis = 1000

// Debt is a batch of units that were admitted without a lease. The batch is sealed when it is first reported. From then on
// every want reports it with the same number, until a reply acknowledges it. By the number the granter recognizes a
// repetition and charges the batch once. Units that are admitted later go into the next batch.
type Debt struct {
	Units int64 // 0: none is to be acknowledged
	// Number is when the batch was sealed, but larger than that of the batch before:
	// unique per holder and key.
	Number lease.Millis
}

// Matters reports whether the batch must be kept: it is not acknowledged, or its number could be used again.
func (d *Debt) Matters(now lease.Millis) bool {
	return d.Units > 0 || d.Number > 0 && now < d.Number+debtMemory
}

// seal returns the batch that a want reports, and its number. It returns 0 units if nothing is owed.
func (a *State) seal(now lease.Millis) (units int64, number uint64) {
	if a.Sealed.Units == 0 {
		if a.Overdrawn == 0 {
			return 0, 0
		}
		a.Sealed = Debt{Units: a.Overdrawn, Number: max(now, a.Sealed.Number+1)}
	}
	return a.Sealed.Units, uint64(a.Sealed.Number)
}

// Owed reports a new batch at once, not only with the next ask: its want is zero if nothing is owed, or while the batch before
// it is not acknowledged.
func (a *State) Owed(now lease.Millis) (w lease.Want) {
	if a.Sealed.Units == 0 {
		w.Overdrawn, w.Debt = a.seal(now)
	}
	return w
}

// Exceed charges units that a response has cost beyond what its request took: to the lots as far as they have units, and then
// as a debt, of which it returns the report, see [State.Owed].
func (a *State) Exceed(t *lease.Terms, now lease.Millis, units int64) (w lease.Want) {
	if units == 0 {
		return w
	}
	if held := min(units, a.Available(now)); held > 0 {
		a.spend(now, held)
		units -= held
	}
	a.Owe(t, units)
	return a.Owed(now)
}

// DropDebt drops all overdrawn units, which will never be charged, and returns how many there were.
func (a *State) DropDebt() (units int64) {
	units = a.Overdrawn
	a.Overdrawn, a.Sealed.Units = 0, 0
	return units
}

// paid clears the batch that a reply acknowledges. A late reply to an older want clears nothing, and neither does a reply that
// states that the batch was not charged.
func (a *State) paid(w lease.Want, g lease.Grant) {
	if w.Overdrawn > 0 && w.Debt == uint64(a.Sealed.Number) && !g.StillOwed {
		a.Overdrawn -= a.Sealed.Units
		a.Sealed.Units = 0
	}
}
