package enginetest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// bounds saturates limits of every size: never more than one exact limiter would admit, and nearly all of the limit is used.
func bounds(t *testing.T, s Subject) {
	for _, c := range []struct {
		name    string
		count   int64
		per     limit.Micros
		cost    int64
		periods int
	}{
		{"10 a second", 10, limit.Second, 1, 12},
		{"500 a minute, cost 7", 500, limit.Minute, 7, 4},
		{"3000000 a second", 3_000_000, limit.Second, 10_000, 4},
		{"1 a day", 1, limit.Day, 1, 6},
	} {
		if s.Distant {
			c.cost, c.periods = max(c.cost, c.count/100), 2
		}
		t.Run(c.name, func(t *testing.T) {
			everyAlgorithm(t, c.count, c.per, func(t *testing.T, spec limit.Spec) { saturate(t, s, spec, c.cost, c.periods) })
		})
	}
}

// saturate offers three times the limit, in steps that vary, for so many periods.
func saturate(t *testing.T, s Subject, spec limit.Spec, cost int64, periods int) {
	clk, store, p := s.begin(t, spec, exact)
	random := rand.New(rand.NewPCG(7, uint64(spec.Count)))
	steps, total := max(3*spec.Count/cost, 60), int64(0)
	var one limit.State // of a limiter that has admitted the same
	for end := clk.now() + limit.Micros(periods)*spec.Period; clk.now() < end; {
		w := lease.Want{Need: cost, Waiting: cost, Want: cost}
		if g := acquire(t, store, p, "k", w); g.Granted > 0 {
			if p.Limit.Peek(one, clk.now(), cost).Granted == 0 {
				t.Fatalf("after %d units %d more were admitted, and a limit of %d has not as many", total, cost, spec.Count)
			}
			one, total = p.Limit.Charge(one, clk.now(), cost), total+cost
		}
		clk.advance(1 + limit.Micros(random.Int64N(2*int64(spec.Period)/steps)))
	}
	// Whole requests, whole windows: what does not divide is lost.
	fits := spec.Count / cost * cost
	if least := fits * int64(periods-1) * 85 / 100; total < least {
		t.Errorf("admitted %d in %d periods, at least %d", total, periods, least)
	}
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

// clockSteps: when the clock is set back nothing that was spent comes back, and the limit is not frozen. When it is set
// forward, one more limit is admitted and no more.
func clockSteps(t *testing.T, s Subject) {
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
		clk.step(limit.Hour)
		clk.advance(2 * limit.Second)
		leaves(t, store, p, "k", 10, "an hour forward")
	})
}

// costAboveTheLimit is never granted, is denied for ever, and does not affect the rest.
func costAboveTheLimit(t *testing.T, s Subject) {
	never := func(t *testing.T, spec limit.Spec) {
		clk, store, p := s.begin(t, spec, exact)
		most := p.Terms.Capacity
		g := acquire(t, store, p, "k", one(most+1))
		if g.Status != lease.Denied || g.Granted != 0 || g.RetryAfter < lease.Never {
			t.Errorf("%d of %d: %+v, want a denial for ever", most+1, most, g)
		}
		clk.advance(2 * limit.Second)
		if got := acquire(t, store, p, "k", one(most)); got.Granted != most {
			t.Errorf("all %d after that: %+v", most, got)
		}
	}
	everyAlgorithm(t, 10, limit.Minute, never)
	never(t, limit.Spec{Algorithm: limit.TokenBucket, Count: 100, Period: limit.Minute, Burst: 7})
}
