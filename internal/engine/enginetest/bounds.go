package enginetest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// bounds saturates limits of every size: never more than the algorithm allows in any
// of its windows, and nearly all of the limit is used.
func bounds(t *testing.T, s Subject) {
	late := false
	for _, c := range []struct {
		name    string
		count   int64
		per     limit.Micros
		cost    int64
		periods int
	}{
		{"10 a second", 10, limit.Second, 1, 12},
		{"500 a minute", 500, limit.Minute, 1, 4},
		{"500 a minute, cost 7", 500, limit.Minute, 7, 4},
		{"3000000 a second", 3_000_000, limit.Second, 10_000, 4},
		{"1 a day", 1, limit.Day, 1, 6},
		{"1000000 a day", 1_000_000, limit.Day, 2_000, 3},
	} {
		if s.Distant {
			c.cost, c.periods = max(c.cost, c.count/100), 2
		}
		t.Run(c.name, func(t *testing.T) {
			everyAlgorithm(t, c.count, c.per, func(t *testing.T, spec limit.Spec) {
				if late {
					t.Fatal("not tried, another one took too long")
				}
				late = !saturate(t, s, spec, c.cost, c.periods)
			})
		})
	}
}

// saturateTime is how long one limit may take, on a crowded machine. An exact rule
// makes its requests wait for the answer only.
const saturateTime = time.Minute

// saturate offers three times the limit, in steps that vary, for so many periods. It
// is false if that takes too long.
func saturate(t *testing.T, s Subject, spec limit.Spec, cost int64, periods int) bool {
	clk, store, p := s.begin(t, spec, exact)
	random := rand.New(rand.NewPCG(7, uint64(spec.Count)))
	steps := max(3*spec.Count/cost, 60)
	var admitted admissions
	begin, latest := clk.now(), time.Now().Add(saturateTime)
	for clk.now() < begin+limit.Micros(periods)*spec.Period {
		if g := acquire(t, store, p, "k", one(cost)); g.Granted > 0 {
			admitted = append(admitted, admission{clk.now(), g.Granted})
		}
		if time.Now().After(latest) {
			t.Errorf("%v of %d periods took %v", clk.now()-begin, periods, saturateTime)
			return false
		}
		clk.advance(1 + limit.Micros(random.Int64N(2*int64(spec.Period)/steps)))
	}
	total := admitted.check(t, spec, periods, clk.now()-begin)
	// Whole requests, whole windows: what does not divide is lost.
	fits := spec.Count / cost * cost
	if least := fits * int64(periods-1) * 85 / 100; total < least {
		t.Errorf("admitted %d in %d periods, at least %d", total, periods, least)
	}
	return true
}

// admissions are units that were admitted, in the order of time.
type admissions []admission

type admission struct {
	at    limit.Micros
	units int64
}

// check holds what was admitted in so much time against what the algorithm promises,
// and returns the sum.
func (a admissions) check(t *testing.T, spec limit.Spec, periods int, elapsed limit.Micros) (total int64) {
	t.Helper()
	for _, one := range a {
		total += one.units
	}
	most, trailing := spec.Count*int64(elapsed/spec.Period+2), 2*spec.Count
	switch spec.Algorithm {
	case limit.TokenBucket:
		most = spec.Count + int64(elapsed)*spec.Count/int64(spec.Period)
	case limit.SlidingLog:
		trailing = spec.Count
	default: // whole windows of the clock
		if worst := a.worst(func(first, last limit.Micros) bool { return first/spec.Period == last/spec.Period }); worst > spec.Count {
			t.Errorf("admitted %d of %d in a window of the clock", worst, spec.Count)
		}
	}
	if total > most {
		t.Errorf("admitted %d in %d periods, at most %d", total, periods, most)
	}
	if worst := a.worst(func(first, last limit.Micros) bool { return last-first < spec.Period }); worst > trailing {
		t.Errorf("admitted %d in a period that ends at any time, at most %d", worst, trailing)
	}
	return total
}

// worst is the largest sum of admissions whose first and last are together in a window.
func (a admissions) worst(together func(first, last limit.Micros) bool) (worst int64) {
	sum, first := int64(0), 0
	for _, last := range a {
		for sum += last.units; !together(a[first].at, last.at); first++ {
			sum -= a[first].units
		}
		worst = max(worst, sum)
	}
	return worst
}

// hammer asks from many goroutines at one moment: exactly the limit is granted.
func hammer(t *testing.T, s Subject) {
	everyAlgorithm(t, 1000, limit.Hour, func(t *testing.T, spec limit.Spec) {
		clk, store, p := s.begin(t, spec)
		var granted atomic.Int64
		together(8, func(int) {
			for range 300 {
				g := acquire(t, store, p, "k", one(1))
				granted.Add(g.Granted)
			}
		})
		if total := granted.Load() + drainAll(t, s, clk, store, p, "k"); total > 1000 || total < s.least(1000) {
			t.Errorf("2400 requests at once and what was asked after them were granted %d, want 1000", total)
		}
	})
}

// together runs so many at once and waits for all.
func together(n int, run func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() { <-begin; run(i) })
	}
	close(begin)
	all.Wait()
}

// clockStepsBack: nothing that was spent comes back, and the limit is not frozen.
func clockStepsBack(t *testing.T, s Subject) {
	everyAlgorithm(t, 10, limit.Second, func(t *testing.T, spec limit.Spec) {
		clk, store, p := s.begin(t, spec, exact)
		leaves(t, store, p, "k", 10, "at first")
		clk.step(-300 * limit.Millisecond)
		leaves(t, store, p, "k", 0, "300 ms back")
		clk.step(-limit.Hour)
		leaves(t, store, p, "k", 0, "an hour back")
		clk.advance(2 * limit.Second) // denials in a cache are over: now its store is asked after the step
		if got := drain(t, store, p, "k"); got > 10 {
			t.Errorf("two seconds after the step: %d", got)
		}
		clk.advance(3 * limit.Second)
		leaves(t, store, p, "k", 10, "three seconds after the step, unless the limit is frozen")
	})
}

// clockStepsForward: an hour passes at once, which admits one more limit and no more.
func clockStepsForward(t *testing.T, s Subject) {
	everyAlgorithm(t, 10, limit.Second, func(t *testing.T, spec limit.Spec) {
		clk, store, p := s.begin(t, spec, exact)
		drain(t, store, p, "k")
		clk.step(limit.Hour)
		clk.advance(2 * limit.Second)
		leaves(t, store, p, "k", 10, "an hour later")
	})
}

// costAboveTheLimit is never granted, is denied for ever, and does not affect the rest.
func costAboveTheLimit(t *testing.T, s Subject) {
	everyAlgorithm(t, 10, limit.Minute, func(t *testing.T, spec limit.Spec) { neverMoreThan(t, s, spec, 10) })
}

// costAboveTheBurst: the same for a bucket that holds less than its count.
func costAboveTheBurst(t *testing.T, s Subject) {
	neverMoreThan(t, s, limit.Spec{Algorithm: limit.TokenBucket, Count: 100, Period: limit.Minute, Burst: 7}, 7)
}

func neverMoreThan(t *testing.T, s Subject, spec limit.Spec, most int64) {
	clk, store, p := s.begin(t, spec, exact)
	g := acquire(t, store, p, "k", one(most+1))
	if g.Status != lease.Denied || g.Granted != 0 || g.RetryAfter < lease.Never {
		t.Errorf("%d of %d: %+v, want a denial for ever", most+1, most, g)
	}
	clk.advance(2 * limit.Second)
	if got := acquire(t, store, p, "k", one(most)); got.Granted != most {
		t.Errorf("all %d after that: %+v", most, got)
	}
}

// costZero is a question: it takes nothing and is never denied.
func costZero(t *testing.T, s Subject) {
	everyAlgorithm(t, 3, limit.Minute, func(t *testing.T, spec limit.Spec) {
		_, store, p := s.begin(t, spec, exact)
		for range 5 {
			if g := acquire(t, store, p, "k", lease.Want{}); g.Status != lease.OK || g.Granted != 0 || g.Limit != 3 {
				t.Fatalf("asked for nothing: %+v", g)
			}
		}
		leaves(t, store, p, "k", 3, "after questions")
		if g := acquire(t, store, p, "k", lease.Want{}); g.Status != lease.OK || g.Remaining != 0 {
			t.Errorf("asked for nothing of a spent key: %+v", g)
		}
	})
}

// oneMicrosecond admits two requests in the same microsecond: both count.
func oneMicrosecond(t *testing.T, s Subject) {
	everyAlgorithm(t, 2, limit.Second, func(t *testing.T, spec limit.Spec) {
		_, store, p := s.begin(t, spec, exact)
		grants := acquireAll(t, store,
			engine.Ask{Policy: p, Key: []byte("k"), Want: one(1)},
			engine.Ask{Policy: p, Key: []byte("k"), Want: one(1)},
			engine.Ask{Policy: p, Key: []byte("k"), Want: one(1)})
		var granted int64
		for _, g := range grants {
			granted += g.Granted
		}
		if granted != 2 {
			t.Errorf("three at once were granted %d of 2: %+v", granted, grants)
		}
	})
}
