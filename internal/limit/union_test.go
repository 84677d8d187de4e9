package limit

import (
	"testing"

	"pgregory.net/rapid"
)

// What two counters had spent, their union has spent, at once and ever after; a
// counter's union with itself, or with a new one, is the counter.
func TestUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom([]Spec{
			{Algorithm: TokenBucket, Count: 7, Period: 10 * Second}, {Algorithm: TokenBucket, Count: 3, Period: Day, Burst: 50},
			{Algorithm: FixedWindow, Count: 7, Period: 10 * Second}, {Algorithm: FixedWindow, Count: 7, Period: 10 * Second, Align: AlignFirstRequest},
			{Algorithm: SlidingWindow, Count: 7, Period: 10 * Second}, {Algorithm: SlidingWindow, Count: 20, Period: Day},
			{Algorithm: FixedWindow, Count: 7, Period: 10 * Second, ChargeRejected: true}, {Algorithm: FixedWindow, Count: 7, Period: 30 * Day, Calendar: months},
		}).Draw(t, "spec")
		l := mustNew(t, spec)
		exact := spec.Algorithm != SlidingWindow && spec.Align == AlignClock
		step := func() Micros { return Micros(rapid.Int64Range(0, int64(spec.Period/3)).Draw(t, "step")) }
		remaining := func(st State, at Micros) int64 { return l.Peek(st, at, 0).Remaining }
		now := epoch + step()
		var a, b State
		for range rapid.IntRange(0, 20).Draw(t, "asks") {
			st := &a
			if rapid.Bool().Draw(t, "other") {
				st = &b
			}
			need := rapid.Int64Range(1, 4).Draw(t, "need")
			l.Decide(st, now, Ask{Need: need, Waiting: need, Want: need})
			now += step()
		}
		u, self, alone := l.Union(a, b, now), l.Union(a, a, now), l.Union(State{}, a, now)
		for range 10 {
			got, least := remaining(u, now), min(remaining(a, now), remaining(b, now))
			if got > least || got < least && exact {
				t.Fatalf("%d remain of the union, %d and %d of its parts", got, remaining(a, now), remaining(b, now))
			}
			if got := remaining(self, now); got != remaining(a, now) {
				t.Fatalf("%d remain of the union with itself, want %d", got, remaining(a, now))
			}
			if got := remaining(alone, now); got != remaining(a, now) {
				t.Fatalf("%d remain of the union with a new one, want %d", got, remaining(a, now))
			}
			now += step()
		}
	})
}
