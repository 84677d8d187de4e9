package limit

import (
	"testing"

	"pgregory.net/rapid"
)

// What was left when the history was lost is what is left when somebody remembers it,
// and a counter that nobody forgot loses nothing by it.
func TestRecall(t *testing.T) {
	for name, spec := range map[string]Spec{
		"bucket":  {Count: 10, Period: Minute, Burst: 20},
		"fixed":   {Algorithm: FixedWindow, Count: 20, Period: Minute},
		"first":   {Algorithm: FixedWindow, Count: 20, Period: Minute, Align: AlignFirstRequest},
		"sliding": {Algorithm: SlidingWindow, Count: 20, Period: Minute},
		"log":     {Algorithm: SlidingLog, Count: 20, Period: Minute},
	} {
		t.Run(name, func(t *testing.T) {
			l := mustNew(t, spec)
			rapid.Check(t, func(t *rapid.T) {
				now := epoch + Micros(rapid.Int64Range(0, int64(Hour)).Draw(t, "start"))
				var st State
				for range rapid.IntRange(1, 6).Draw(t, "grants") {
					n := rapid.Int64Range(1, 9).Draw(t, "units")
					st, _ = l.Acquire(st, now, Ask{Need: n, Waiting: n, Want: n})
					now += Micros(rapid.Int64Range(0, int64(20*Second)).Draw(t, "pause"))
				}
				left := l.Peek(st, now, 0).Remaining // by a holder's last reply
				now += Micros(rapid.Int64Range(0, int64(90*Second)).Draw(t, "later"))
				truth := l.Peek(st, now, 0)
				// In whole milliseconds, and as of a little before.
				late := now - Micros(rapid.Int64Range(0, int64(Millisecond)).Draw(t, "late"))
				reset := (l.Peek(st, late, 0).Reset + Millisecond - 1) / Millisecond * Millisecond
				got, units := l.Recall(State{}, now, left, reset)
				seen := l.Peek(got, now, 0)
				if units != l.capacity-seen.Remaining {
					t.Fatalf("lowered by %d, and %d of %d are left", units, seen.Remaining, l.capacity)
				}
				if seen.Remaining > truth.Remaining && truth.Reset > recallSlack {
					t.Fatalf("%d left, and %d were: %+v became %+v", seen.Remaining, truth.Remaining, st, got)
				}
				if truth.Reset == 0 && seen.Reset > 2*recallSlack {
					t.Fatalf("the counter was as good as new, and is not for %d", seen.Reset)
				}
				if seen.Reset > reset+l.spec.Period+recallSlack {
					t.Fatalf("as good as new in %d, and not in %d", seen.Reset, reset)
				}
				kept, more := l.Recall(st, now, left, reset)
				if after := l.Peek(kept, now, 0); after.Remaining > truth.Remaining || after.Remaining+more != truth.Remaining {
					t.Fatalf("of %d left %d became, by %d", truth.Remaining, after.Remaining, more)
				}
			})
		})
	}
}

// A liar takes one limit, for as long as a counter that was used up now would.
func TestRecallOfALiar(t *testing.T) {
	for _, spec := range []Spec{
		{Count: 10, Period: Minute, Burst: 20},
		{Algorithm: FixedWindow, Count: 20, Period: Minute},
		{Algorithm: FixedWindow, Count: 20, Period: Minute, Align: AlignFirstRequest},
		{Algorithm: SlidingWindow, Count: 20, Period: Minute},
		{Algorithm: SlidingLog, Count: 20, Period: Minute},
	} {
		l := mustNew(t, spec)
		var st State
		var units int64
		for range 5 {
			var more int64
			st, more = l.Recall(st, epoch+3*Second, -5, Never)
			units += more
		}
		if d := l.Peek(st, epoch+3*Second, 0); units != l.capacity || d.Remaining != 0 || d.Reset > l.Memory() {
			t.Errorf("%+v: lowered by %d in all, %+v; want one limit, for %d at most", spec, units, d, l.Memory())
		}
		if !l.Fresh(st, epoch+3*Second+l.Memory()) {
			t.Errorf("%+v: not as good as new after %d", spec, l.Memory())
		}
		if st, n := l.Recall(State{}, epoch, 0, 0); n != 0 || !l.Fresh(st, epoch) {
			t.Errorf("%+v: something was lowered by who remembers nothing", spec)
		}
	}
}
