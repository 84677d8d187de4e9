package limit

import (
	"math/rand/v2"
	"testing"
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

// Bounds both ways: never more than the bound that each algorithm's comment
// derives, in any window; and at least 99.9 % of the limit used while saturated.
func TestBounds(t *testing.T) {
	const count, windows = 1000, 20
	for name, c := range map[string]struct {
		spec Spec
		in   Micros // a trailing window of this length
		most int64
		all  int64 // admitted at least, less a thousandth
	}{
		"token bucket, one period":        {Spec{Count: count, Period: Second}, Second, 2 * count, (windows + 1) * count},
		"token bucket, a tenth":           {Spec{Count: count, Period: Second}, Second / 10, count + count/10, (windows + 1) * count},
		"token bucket with a small burst": {Spec{Count: count, Period: Second, Burst: 10}, Second, count + 10, windows * count},
		"fixed window":                    {Spec{Algorithm: FixedWindow, Count: count, Period: Second}, Second, 2 * count, windows * count},
		"fixed window by first request": {Spec{Algorithm: FixedWindow, Count: count, Period: Second, Align: AlignFirstRequest},
			Second, 2 * count, windows * count},
		"sliding window": {Spec{Algorithm: SlidingWindow, Count: count, Period: Second}, Second, 2 * count, windows * (count - 1)},
		"sliding log":    {Spec{Algorithm: SlidingLog, Count: count, Period: Second}, Second, count, windows * count},
		"sliding log with a least interval": {Spec{Algorithm: SlidingLog, Count: count, Period: Second, MinInterval: 2 * Millisecond},
			Second, count / 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			admitted := saturate(mustNew(t, c.spec), 20, windows*Second)
			if got := most(admitted, c.in); got > c.most {
				t.Errorf("%d units in %d µs, at most %d", got, c.in, c.most)
			}
			if got := total(admitted); got < c.all-c.all/1000 {
				t.Errorf("%d units in all, of %d that the limit allows", got, c.all)
			}
		})
	}
}

// Leases on a sliding log: units are spent at any time of the lease, and still no
// trailing window sees more than the limit; and little of it is lost.
func TestSlidingLogBoundWithLeases(t *testing.T) {
	const count = 1000
	l := mustNew(t, Spec{Algorithm: SlidingLog, Count: count, Period: Second})
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, spend := range []string{"at once", "at the end", "at any time"} {
		var st State
		var admitted []admission
		for now := epoch; now < epoch+20*Second; now += 1 + Micros(rnd.Int64N(int64(2*Millisecond))) {
			var d Decision
			st, d = l.Acquire(st, now, Ask{Need: 1, Waiting: 2, Want: 1 + rnd.Int64N(60), Askers: 2})
			waited := min(d.Granted, 2)
			at := now + map[string]Micros{"at once": 0, "at the end": d.TTL, "at any time": Micros(rnd.Int64N(int64(d.TTL + 1)))}[spend]
			admitted = append(admitted, admission{now, waited}, admission{at, d.Granted - waited})
		}
		sortByTime(admitted)
		if got := most(admitted, Second); got > count {
			t.Errorf("spent %s: %d units in a trailing window", spend, got)
		}
		if got := total(admitted); got < 20*count*96/100 { // 98 % less ttl/period
			t.Errorf("spent %s: only %d of %d", spend, got, 20*count)
		}
	}
}

func sortByTime(a []admission) {
	for i := 1; i < len(a); i++ { // nearly sorted
		for k := i; k > 0 && a[k-1].at > a[k].at; k-- {
			a[k-1], a[k] = a[k], a[k-1]
		}
	}
}

// The boundary trace: everything at the end of one clock window and again at the
// beginning of the next. A fixed window admits twice the limit within moments,
// the others do not. The second trace is the worst case of the two counters:
// everything at the end of one window and again at the end of the next.
func TestBoundary(t *testing.T) {
	const count = 1000
	start := epoch / Minute * Minute
	burst := func(from Micros) (times []Micros) {
		for i := range Micros(2 * count) {
			times = append(times, from+i)
		}
		return times
	}
	flip := append(burst(start+Minute-2*count), burst(start+Minute)...)
	ends := append(burst(start+Minute-2*count), burst(start+2*Minute-4*count)...)
	for _, c := range []struct {
		name       string
		spec       Spec
		flip, ends float64 // most in a trailing window, as a ratio of the limit
	}{
		{"fixed window", Spec{Algorithm: FixedWindow}, 2, 2},
		{"fixed window by first request", Spec{Algorithm: FixedWindow, Align: AlignFirstRequest}, 1, 1}, // its flip lies elsewhere
		{"sliding window", Spec{Algorithm: SlidingWindow}, 1, 2},
		{"sliding log", Spec{Algorithm: SlidingLog}, 1, 1},
		{"token bucket", Spec{Algorithm: TokenBucket}, 1, 2},
		{"token bucket, burst of a tenth", Spec{Algorithm: TokenBucket, Burst: count / 10}, 0.1, 0.2},
	} {
		c.spec.Count, c.spec.Period = count, Minute
		ratios := [2]float64{}
		for i, times := range [][]Micros{flip, ends} {
			var st State
			var admitted []admission
			l := mustNew(t, c.spec)
			for _, now := range times {
				var d Decision
				st, d = l.Acquire(st, now, Ask{Need: 1, Waiting: 1, Want: 1})
				admitted = append(admitted, admission{now, d.Granted})
			}
			ratios[i] = float64(most(admitted, Minute)) / count
		}
		t.Logf("%-30s %.3f L round a flip, %.3f L from end to end", c.name, ratios[0], ratios[1])
		for i, want := range []float64{c.flip, c.ends} {
			if ratios[i] > want+0.001 || ratios[i] < want-0.01 {
				t.Errorf("%s, trace %d: %.3f times the limit, want %.1f", c.name, i, ratios[i], want)
			}
		}
	}
}
