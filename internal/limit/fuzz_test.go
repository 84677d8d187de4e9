package limit

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func fuzzLimit(algorithm uint8, count, period, extra int64, flags uint8) (*Limit, error) {
	s := Spec{Algorithm: Algorithm(algorithm), Count: count, Period: Micros(period), ChargeRejected: flags&1 != 0}
	switch s.Algorithm {
	case TokenBucket:
		s.Burst = extra
	case FixedWindow:
		s.Align = Align(flags >> 1)
	case SlidingLog:
		s.MinInterval = Micros(extra)
	case Concurrency:
		s.LeaseTTL = Micros(extra)
	}
	return New(s)
}

// seeds are limits at the corners: odd rates, long periods, nothing at all.
func seeds(add func(algorithm uint8, count, period, extra int64, flags uint8)) {
	for _, s := range []struct{ count, period, extra int64 }{
		{10, int64(Second), 0}, {3_000_000, int64(Second), 0}, {1, int64(Day), 0}, {1_000_000, int64(Day), 0},
		{999_983, int64(Day), 0}, {0, int64(Second), 0}, {100, 7 * int64(Hour), 1000}, {MaxCount, int64(Millisecond), 0},
	} {
		for algorithm := range uint8(5) {
			add(algorithm, s.count, s.period, s.extra, algorithm%4)
		}
	}
}

// The fuzzers below look for a trace on which a limit is not what it is by definition.

func FuzzTokenBucket(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(byDefinition(TokenBucket))) }
func FuzzFixedWindow(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(byDefinition(FixedWindow))) }
func FuzzSlidingWindow(f *testing.F) { f.Fuzz(rapid.MakeFuzz(byDefinition(SlidingWindow))) }
func FuzzSlidingLog(f *testing.F)    { f.Fuzz(rapid.MakeFuzz(byDefinition(SlidingLog))) }
func FuzzConcurrency(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(slotsByDefinition)) }

// FuzzIllegal finds a limit that is neither rejected with a reason nor within the arithmetic. It asks with numbers that
// nobody should send, at times that no clock should show: nothing panics and nothing grows out of its range.
func FuzzIllegal(f *testing.F) {
	seeds(func(algorithm uint8, count, period, extra int64, flags uint8) {
		for _, n := range []int64{math.MinInt64, -1, 0, 1 << 53, math.MaxInt64} {
			f.Add(algorithm, count, period, extra, flags, n, n, n, n, n)
			f.Add(algorithm, count, period, extra, flags, int64(epoch), n, int64(5), n, -n)
		}
	})
	f.Add(uint8(9), int64(-1), int64(-1), int64(-1), uint8(255), int64(0), int64(0), int64(0), int64(0), int64(0))
	f.Add(uint8(0), MaxCount, int64(MaxPeriod), MaxCount, uint8(0), int64(0), int64(0), int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, algorithm uint8, count, period, extra int64, flags uint8, at, need, waiting, want, lead int64) {
		l, err := fuzzLimit(algorithm, count, period, extra, flags)
		if err != nil {
			var bad *SpecError
			if !errors.As(err, &bad) || bad.Field == "" || bad.Reason == "" {
				t.Fatalf("an error without a field or a reason: %v", err)
			}
			return
		}
		if again, err := New(l.Spec()); err != nil || *again != *l {
			t.Fatalf("a spec with its defaults filled in is another limit: %+v, %v", l.Spec(), err)
		}
		checkExact(t, 0, l, l.Charge(State{}, epoch, l.capacity), epoch)
		var st State
		for i, now := range []Micros{Micros(at), Micros(at) + 1, epoch, Micros(lead), Micros(at)} {
			var d Decision
			a := Ask{Need: need, Waiting: waiting, Want: want, Askers: waiting, Lead: Micros(lead)}
			st, d = l.Acquire(st, now, a)
			a.legalize()
			if d.Granted < 0 || d.Granted > a.Want || d.Granted > 0 && d.Granted < a.Need {
				t.Fatalf("granted %d of %+v", d.Granted, a)
			}
			st, _ = l.Return(st, now, Micros(lead), want)
			st = l.Charge(st, now, waiting)
			checkState(t, i, l, st)
			checkExact(t, i, l, st, LegalTime(now))
			l.Peek(st, now, need)
			l.Fresh(st, now)
			l.PeriodFromID(now, uint32(lead))
		}
	})
}
