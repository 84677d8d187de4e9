package limit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// After a change of count or burst a bucket goes on with the whole tokens that it
// had, cut at the new burst.
func TestTokenBucketRescale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawLimit(t, TokenBucket)
		s := before.Spec()
		s.Count = rapid.SampledFrom(counts[1:]).Draw(t, "new count")
		s.Burst = rapid.SampledFrom(counts[1:]).Draw(t, "new burst")
		after, err := New(s)
		if err != nil {
			t.Skip(err)
		}
		if before.Shape() != after.Shape() {
			t.Fatal("count and burst entered the shape")
		}
		var st State
		st = before.Charge(st, epoch, rapid.Int64Range(0, 2*before.capacity).Draw(t, "charged"))
		now := epoch + Micros(rapid.Int64Range(0, int64(s.Period)).Draw(t, "after"))
		st, _ = before.Acquire(st, now, Ask{})
		if level := after.bucket.rescale(st.Level, st.Aux); level < -after.bucket.cap || level > after.bucket.cap {
			t.Fatalf("a level of %d in a bucket of %d", level, after.bucket.cap)
		}
		had := floor(big.NewRat(st.Level, before.bucket.cost))
		st, _ = after.Acquire(st, st.At, Ask{}) // what came in since is credited at the new rate
		if before.bucket.cost != after.bucket.cost {
			if want := max(-s.Burst, min(had, s.Burst)) * after.bucket.cost; st.Level != want {
				t.Fatalf("%d tokens became a level of %d, want %d", had, st.Level, want)
			}
		}
		checkState(t, 0, after, st)
	})
}

// A level is converted to whole tokens, rounded down, of a debt as well.
func TestRescaleRoundsDown(t *testing.T) {
	b := bucket{cap: 30, cost: 3}
	for level, want := range map[int64]int64{7: 9, 6: 9, 1: 0, 0: 0, -1: -3, -7: -12, -8: -12, 100: 30, -100: -30} {
		if got := b.rescale(level, 2); got != want {
			t.Errorf("a level of %d in halves of a token became %d, want %d", level, got, want)
		}
	}
}
