package limit

import (
	"testing"
)

// A level is converted to whole tokens, rounded down, of a debt as well.
func TestRescaleRoundsDown(t *testing.T) {
	b := bucket{cap: 30, cost: 3}
	for level, want := range map[int64]int64{7: 9, 6: 9, 1: 0, 0: 0, -1: -3, -7: -12, -8: -12, 100: 30, -100: -30} {
		if got := b.rescale(level, 2); got != want {
			t.Errorf("a level of %d in halves of a token became %d, want %d", level, got, want)
		}
	}
}
