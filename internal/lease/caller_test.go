package lease

import (
	"testing"

	"pgregory.net/rapid"
)

func TestCaller(t *testing.T) {
	var c Caller
	for _, row := range []struct {
		seq  uint64
		want bool
	}{{1, true}, {1, false}, {3, true}, {2, true}, {2, false}, {66, true}, {3, false}, {4, true}, {2, false}, {1000, true}, {936, false}, {937, true}, {937, false}, {1000, false}, {1 << 63, true}} {
		if got := c.Accept(row.seq); got != row.want {
			t.Errorf("seq %d accepted: %v", row.seq, got)
		}
	}
}

// TestCallerIsASet compares the window of bits with a set that remembers all.
func TestCallerIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Caller
		seen, latest := map[uint64]bool{}, uint64(0)
		for _, step := range rapid.SliceOf(rapid.IntRange(-80, 80)).Draw(t, "steps") {
			seq := uint64(max(1, int(latest)+step))
			old := latest >= 64 && seq <= latest-64
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
