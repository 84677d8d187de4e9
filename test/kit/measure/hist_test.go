package measure

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A quantile is never below the true one and at most one part in 64 above it.
func TestHistAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 200).Draw(t, "values")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h Hist
		for _, v := range values {
			h.Add(time.Duration(v))
		}
		if h.Count() != uint64(len(values)) {
			t.Fatalf("Count = %d, want %d", h.Count(), len(values))
		}
		slices.Sort(values)
		rank := min(max(int(math.Ceil(q*float64(len(values))-1e-6)), 1), len(values))
		want := values[rank-1]
		got := int64(h.Quantile(q))
		if got < want || got > want+want/histSub+1 {
			t.Fatalf("Quantile(%v) of %v = %d, want %d to %d", q, values, got, want, want+want/histSub+1)
		}
	})
}
