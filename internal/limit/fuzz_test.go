package limit

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The fuzzers below look for a trace on which a limit is not what it is by definition.

func FuzzTokenBucket(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(byDefinition(TokenBucket))) }
func FuzzFixedWindow(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(byDefinition(FixedWindow))) }
func FuzzSlidingWindow(f *testing.F) { f.Fuzz(rapid.MakeFuzz(byDefinition(SlidingWindow))) }
func FuzzSlidingLog(f *testing.F)    { f.Fuzz(rapid.MakeFuzz(byDefinition(SlidingLog))) }
func FuzzConcurrency(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(slotsByDefinition)) }
func FuzzIllegal(f *testing.F)       { f.Fuzz(rapid.MakeFuzz(illegal)) }

func TestIllegal(t *testing.T) { rapid.Check(t, illegal) }

// illegal asks with numbers that nobody should send, at times that no clock
// should show: nothing panics and nothing grows out of its range.
func illegal(t *rapid.T) {
	l := drawLimit(t, TokenBucket, FixedWindow, SlidingWindow, SlidingLog, Concurrency)
	if again, err := New(l.Spec()); err != nil || *again != *l {
		t.Fatalf("a spec with its defaults filled in is another limit: %+v, %v", l.Spec(), err)
	}
	checkExact(t, 0, l, l.Charge(State{}, epoch, l.capacity), epoch)
	number := rapid.OneOf(rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 5, int64(epoch), 1 << 53, math.MaxInt64}), rapid.Int64())
	at, lead := Micros(number.Draw(t, "at")), Micros(number.Draw(t, "lead"))
	ask := Ask{Need: number.Draw(t, "need"), Waiting: number.Draw(t, "waiting"), Want: number.Draw(t, "want"), Askers: number.Draw(t, "askers"), Lead: lead}
	var st State
	for i, now := range []Micros{at, at + 1, epoch, lead, at} {
		var d Decision
		a := ask
		st, d = l.Acquire(st, now, a)
		a.legalize()
		if d.Granted < 0 || d.Granted > a.Want || d.Granted > 0 && d.Granted < a.Need {
			t.Fatalf("granted %d of %+v", d.Granted, a)
		}
		st, _ = l.Return(st, now, lead, ask.Want)
		st = l.Charge(st, now, ask.Waiting)
		checkState(t, i, l, st)
		checkExact(t, i, l, st, LegalTime(now))
		l.Peek(st, now, ask.Need)
		l.Fresh(st, now)
		l.PeriodFromID(now, uint32(lead))
	}
}
