package upstream

import "sync/atomic"

const (
	// turnsPerSecond is how many turns of the keeper a second has.
	turnsPerSecond = 4
	// leastUndecided is how many wants of a second have to be undecided at least for it to matter.
	leastUndecided = 3
)

// wants counts the wants of shared limits in the last second, by turns of the keeper. The zero value has had none.
// Note is safe for concurrent use.
type wants struct {
	decided, undecided atomic.Int64
	last               [turnsPerSecond][2]int64
	turn               int
}

// note counts wants that the aggregator, or its leases here, decided in time or did not.
func (w *wants) note(decided, undecided int64) {
	w.decided.Add(decided)
	w.undecided.Add(undecided)
}

// undecidedLately ends a turn. It reports whether some of the last second's wants were not decided in time, and whether that is
// more than a tenth of them.
func (w *wants) undecidedLately() (some, mostly bool) {
	w.last[w.turn] = [2]int64{w.decided.Swap(0), w.undecided.Swap(0)}
	w.turn = (w.turn + 1) % turnsPerSecond
	var decided, undecided int64
	for _, n := range w.last {
		decided, undecided = decided+n[0], undecided+n[1]
	}
	return undecided > 0, undecided >= leastUndecided && 10*undecided > decided+undecided
}
