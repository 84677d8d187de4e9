package limit

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// admission is units admitted at a time.
type admission struct {
	at    Micros
	units int64
}

// saturate asks for one unit every so often, which is more than the limit, from a
// time inside a window, and returns what was admitted.
func saturate(l *Limit, every, long Micros) (admitted []admission) {
	var st State
	rnd := rand.New(rand.NewPCG(1, 2))
	start := epoch + 123_457
	for now := start; now < start+long; now += 1 + Micros(rnd.Int64N(int64(2*every))) {
		var d Decision
		if st, d = l.Acquire(st, now, Ask{Need: 1, Waiting: 1, Want: 1}); d.Granted > 0 {
			admitted = append(admitted, admission{now, d.Granted})
		}
	}
	return admitted
}

// most is the most units in any trailing window (t-long, t].
func most(admitted []admission, long Micros) (most int64) {
	var sum int64
	first := 0
	for _, a := range admitted {
		sum += a.units
		for ; admitted[first].at <= a.at-long; first++ {
			sum -= admitted[first].units
		}
		most = max(most, sum)
	}
	return most
}

func total(admitted []admission) (n int64) {
	for _, a := range admitted {
		n += a.units
	}
	return n
}

// Bounds both ways, in limits: the most in any trailing window of one period, where everything comes round a flip, where it
// comes at the end of one window and again at the end of the next, and at a pace that saturates the limit, which is then
// used but for a thousandth.
func TestBounds(t *testing.T) {
	const count, windows, start = 1000, 20, epoch
	for _, c := range []struct {
		name             string
		spec             Spec
		flip, ends, most float64
		all              float64
	}{
		{"fixed window", Spec{Algorithm: FixedWindow}, 2, 2, 2, windows},
		{"fixed window by first request", Spec{Algorithm: FixedWindow, Align: AlignFirstRequest}, 1, 1, 2, windows}, // its flip lies elsewhere
		{"sliding window", Spec{Algorithm: SlidingWindow}, 1, 2, 2, windows - windows/1000.0},
		{"sliding log", Spec{Algorithm: SlidingLog}, 1, 1, 1, windows},
		{"sliding log with a least interval", Spec{Algorithm: SlidingLog, MinInterval: 2 * Millisecond}, 0.002, 0.002, 0.5, 0},
		{"token bucket", Spec{Algorithm: TokenBucket}, 1, 2, 2, windows + 1},
		{"token bucket, burst of a tenth", Spec{Algorithm: TokenBucket, Burst: count / 10}, 0.1, 0.2, 1.1, windows},
	} {
		c.spec.Count, c.spec.Period = count, Second
		l := mustNew(t, c.spec)
		bursts := func(of ...Micros) float64 {
			var st State
			var admitted []admission
			for _, from := range of {
				for now := from; now < from+2*count; now++ {
					var d Decision
					st, d = l.Acquire(st, now, Ask{Need: 1, Waiting: 1, Want: 1})
					admitted = append(admitted, admission{now, d.Granted})
				}
			}
			return float64(most(admitted, Second)) / count
		}
		flip, ends := bursts(start+Second-2*count, start+Second), bursts(start+Second-2*count, start+2*Second-4*count)
		for i, got := range []float64{flip, ends} {
			if want := []float64{c.flip, c.ends}[i]; got > want+0.003 || got < want-0.01 {
				t.Errorf("%s, trace %d: %.3f times the limit, want %.3f", c.name, i, got, want)
			}
		}
		admitted := saturate(l, 20, windows*Second)
		if got := float64(most(admitted, Second)) / count; got > c.most {
			t.Errorf("%s: %.3f limits in a period, at most %.3f", c.name, got, c.most)
		}
		if got := float64(total(admitted)) / count; got < c.all-c.all/1000 {
			t.Errorf("%s: %.3f limits in all, of %.3f that it allows", c.name, got, c.all)
		}
	}
}

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
