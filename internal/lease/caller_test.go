package lease

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestCaller(t *testing.T) {
	var c Caller
	for _, row := range []struct {
		seq  uint64
		want bool
	}{{1, true}, {1, false}, {3, true}, {2, true}, {2, false}, {1026, true}, {3, false}, {4, true}, {2, false},
		{1 << 40, true}, {1<<40 - 1024, false}, {1<<40 - 1023, true}, {1<<40 - 1023, false}, {1 << 40, false}, {1 << 63, true}, {1<<63 - 1, true}} {
		if got := c.Accept(row.seq); got != row.want {
			t.Errorf("seq %d accepted: %v", row.seq, got)
		}
	}
}

// A caller may number its calls as it likes: the largest number is one like the others.
func TestCallerAtTheLastNumber(t *testing.T) {
	var c Caller
	for _, row := range []struct {
		seq  uint64
		want bool
	}{{math.MaxUint64 - 2, true}, {math.MaxUint64, true}, {math.MaxUint64 - 1, true}, {math.MaxUint64, false}, {math.MaxUint64 - 1, false}, {1, false}} {
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
