package limit

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// script reads the steps of a trace from a fuzzer's bytes: 12 each.
func script(l *Limit, b []byte) (steps []step) {
	for len(b) >= 12 && len(steps) < 200 {
		s := step{op: op(b[0]) % ops, grant: int(b[1])}
		after := Micros(int32(binary.LittleEndian.Uint32(b[2:])))
		switch b[1] % 4 {
		case 1:
			after *= Millisecond
		case 2: // around a whole period
			after = max(1, l.spec.Period) + Micros(int8(b[2]))
		case 3: // back
			after = -after
		}
		s.after = after
		units := func(b []byte) int64 { return int64(binary.LittleEndian.Uint16(b)) }
		s.units = units(b[6:])
		s.ask = Ask{Need: units(b[6:]), Waiting: units(b[8:]), Want: units(b[10:]), Askers: int64(b[1] % 8), Lead: after / 2}
		s.ask.legalize()
		steps = append(steps, s)
		b = b[12:]
	}
	return steps
}

func fuzzLimit(algorithm uint8, count, period, extra int64, flags uint8) (*Limit, error) {
	s := Spec{Algorithm: Algorithm(algorithm), Count: count, Period: Micros(period), ChargeDenied: flags&1 != 0}
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

// trace exercises every operation of a script once, forward, at a flip and back.
const trace = "\x00\x00\x01\x00\x00\x00\x05\x00\x05\x00\x09\x00" + "\x00\x02\x00\x00\x00\x00\x01\x00\x01\x00\x01\x00" +
	"\x01\x01\x10\x00\x00\x00\x02\x00\x00\x00\x00\x00" + "\x03\x03\x40\x42\x0f\x00\x03\x00\x00\x00\x00\x00" +
	"\x02\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00" + "\x00\x03\x00\x00\x00\x70\x00\x00\x00\x00\xff\xff"

// FuzzAcquire replays traces against the twin.
func FuzzAcquire(f *testing.F) {
	seeds(func(algorithm uint8, count, period, extra int64, flags uint8) {
		f.Add(algorithm, count, period, extra, flags, []byte(trace))
	})
	f.Fuzz(func(t *testing.T, algorithm uint8, count, period, extra int64, flags uint8, b []byte) {
		l, err := fuzzLimit(algorithm, count, period, extra, flags)
		if err != nil || l.spec.Algorithm == Concurrency {
			return // not a legal limit
		}
		replay(t, l, script(l, b))
	})
}

// FuzzIllegal asks with numbers that nobody should send, at times that no clock
// should show: nothing panics and nothing grows out of its range.
func FuzzIllegal(f *testing.F) {
	seeds(func(algorithm uint8, count, period, extra int64, flags uint8) {
		for _, n := range []int64{math.MinInt64, -1, 0, 1 << 53, math.MaxInt64} {
			f.Add(algorithm, count, period, extra, flags, n, n, n, n, n)
			f.Add(algorithm, count, period, extra, flags, int64(epoch), n, int64(5), n, -n)
		}
	})
	f.Fuzz(func(t *testing.T, algorithm uint8, count, period, extra int64, flags uint8, at, need, waiting, want, lead int64) {
		l, err := fuzzLimit(algorithm, count, period, extra, flags)
		if err != nil {
			return // not a legal limit
		}
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
			checkExact(t, i, l, st, legalTime(now))
			l.Peek(st, now, need)
			l.Fresh(st, now)
			l.PeriodFromID(now, uint32(lead))
		}
	})
}

// FuzzHold takes and gives back slots in any order.
func FuzzHold(f *testing.F) {
	f.Add(int64(20), []byte("\x00\x01\x05\x09\x01\x01\x02\x03\x02\x01\x00\x00\x03\x01\x00\x00\x00\x02\xff\xff"))
	f.Add(int64(0), []byte("\x00\x01\x05\x09"))
	f.Add(MaxCount, []byte("\x01\x01\xff\x00\x01\x01\x00\xff"))
	f.Fuzz(func(t *testing.T, count int64, b []byte) {
		l, err := New(Spec{Algorithm: Concurrency, Count: count})
		if err != nil {
			return // not a legal limit
		}
		var st Slots
		now := epoch
		for ; len(b) >= 4; b = b[4:] {
			id, n := uint64(b[1]), int64(b[2])
			now += Micros(int8(b[3])) * Second / 4
			var d HoldDecision
			switch b[0] % 4 {
			case 0:
				st, d = l.Hold(st, now, id, n, int64(b[3]))
			case 1:
				st, d = l.AcquireSlot(st, now, id, n)
			case 2:
				st, d = l.RenewSlot(st, now, id)
			case 3:
				st, n = l.ReleaseSlot(st, now, id)
			}
			if st.Used > count || d.Granted > count || st.Used < 0 || n < 0 || d.Remaining < 0 || d.RetryAfter < 0 {
				t.Fatalf("%+v of %d in use, %+v", st, count, d)
			}
		}
	})
}

// FuzzNew finds a spec that is neither refused with a reason nor within the
// arithmetic.
func FuzzNew(f *testing.F) {
	seeds(func(algorithm uint8, count, period, extra int64, flags uint8) {
		f.Add(algorithm, count, period, extra, flags)
	})
	f.Add(uint8(9), int64(-1), int64(-1), int64(-1), uint8(255))
	f.Add(uint8(0), MaxCount, int64(MaxPeriod), MaxCount, uint8(0))
	f.Fuzz(func(t *testing.T, algorithm uint8, count, period, extra int64, flags uint8) {
		l, err := fuzzLimit(algorithm, count, period, extra, flags)
		if err != nil {
			var bad *SpecError
			if !errors.As(err, &bad) || bad.Field == "" || bad.Reason == "" {
				t.Fatalf("an error without a field or a reason: %v", err)
			}
			return
		}
		checkExact(t, 0, l, l.Charge(State{}, epoch, l.capacity), epoch)
		if again, err := New(l.Spec()); err != nil || *again != *l {
			t.Fatalf("a spec with its defaults filled in is another limit: %+v, %v", l.Spec(), err)
		}
	})
}
