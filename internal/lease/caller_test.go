package lease

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCallerIsASet compares the window of bits with a set that remembers all.
func TestCallerIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Caller
		seen, latest := map[uint64]bool{}, uint64(0)
		for _, step := range rapid.SliceOf(rapid.OneOf(rapid.IntRange(-80, 80), rapid.IntRange(-1100, 1100))).Draw(t, "steps") {
			seq := uint64(max(1, int(latest)+step))
			old := latest >= CallWindow && seq <= latest-CallWindow
			want := !seen[seq] && !old
			if got := c.Accept(seq); got != want {
				t.Fatalf("seq %d with %d the latest: accepted %v", seq, latest, got)
			}
			if want {
				seen[seq], latest = true, max(latest, seq)
			}
		}
	})
}
