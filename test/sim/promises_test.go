package sim

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestDeniedByOneRuleCostsNothing is promise 3: once all has been given back,
// what is charged is what was admitted, to the unit.
func TestDeniedByOneRuleCostsNothing(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog} {
		for _, consistency := range []lease.Consistency{lease.Leased, lease.Exact} {
			wide := newRule(t, "wide", limit.Spec{Algorithm: algorithm, Count: 5000, Period: limit.Hour}, consistency)
			narrow := newRule(t, "narrow", limit.Spec{Algorithm: algorithm, Count: 100, Period: limit.Hour}, consistency)
			fatal.If(t, Play(Config{Seed: 7, PoPs: 3, Net: Net{Delay: limit.Millisecond, Spread: 5 * limit.Millisecond}}, func(w *World) error {
				for n := range 3 {
					w.Offer(n+1, Load{Rate: 80, Parts: func() []Part {
						return []Part{{wide, "a", 1 + w.rand.Int64N(3)}, {narrow, "a", 1}}
					}}, 5*limit.Second)
				}
				err := w.Run(30 * limit.Second)
				for _, r := range w.rules.list {
					n := w.Totals(r, "a")
					charged := r.Terms.Capacity - w.counters.left(r, "a")
					if charged != n.Admitted {
						t.Errorf("%s, consistency %d, %s: %d charged, %d admitted", algorithm, consistency, r.Name, charged, n.Admitted)
					}
				}
				if n := w.Totals(narrow, "a"); n.Admitted < 98 || n.Admitted > 100 {
					t.Errorf("%s, consistency %d: %d of 100 admitted", algorithm, consistency, n.Admitted)
				}
				return err
			}, wide, narrow))
		}
	}
}

// TestLossesStrandAtMostTheCost is the other half of promise 3: with calls and
// replies lost, what is charged is never less than what was admitted.
func TestLossesStrandAtMostTheCost(t *testing.T) {
	r := newRule(t, "r", limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: limit.Hour}, lease.Leased)
	r.OnFailure = lease.FailureDeny
	fatal.If(t, Play(Config{Seed: 7, PoPs: 3, Net: Net{Delay: limit.Millisecond, LoseCall: 0.1, LoseReply: 0.1, Repeat: 0.1}}, func(w *World) error {
		for n := range 3 {
			w.Offer(n+1, Load{Rate: 80, Parts: Key(r, "a", 2)}, 5*limit.Second)
		}
		err := w.Run(30 * limit.Second)
		n := w.Totals(r, "a")
		if charged := r.Terms.Capacity - w.counters.left(r, "a"); charged < n.Admitted || n.Admitted < n.Offered/2 {
			t.Errorf("%d charged, %d of %d admitted", charged, n.Admitted, n.Offered)
		}
		return err
	}, r))
}

// TestFloodOfKeys is promise 8: a new key with every request fills the tables;
// they stay bounded, and a spent key stays spent. Its faults are caught.
func TestFloodOfKeys(t *testing.T) {
	flood := func(fault Fault) (admitted int64, err error) {
		r := newRule(t, "r", limit.Spec{Algorithm: limit.FixedWindow, Count: 20, Period: limit.Hour}, lease.Leased)
		r.OnFailure = lease.FailureDeny
		err = Play(Config{Seed: 3, PoPs: 2, MaxCounters: 150, Fault: fault, Net: Net{Delay: limit.Millisecond}}, func(w *World) error {
			for n := range 2 {
				w.Offer(n+1, Load{Rate: 100, Parts: Key(r, "spent", 1)}, 10*limit.Second)
				var serial int
				w.Offer(n+1, Load{Rate: 500, Parts: func() []Part {
					serial++
					return []Part{{r, fmt.Sprint(n, serial), 1}}
				}}, 10*limit.Second)
			}
			err := w.Run(10 * limit.Second)
			admitted = w.Totals(r, "spent").Admitted
			return err
		}, r)
		return admitted, err
	}
	if n, err := flood(None); err != nil || n != 20 {
		t.Errorf("%d of 20 admitted, %v", n, err)
	}
	for _, f := range []Fault{ForgetsSpentKeys, ForgetsDenials} {
		if _, err := flood(f); err == nil {
			t.Errorf("nobody noticed a simulator that %s", f)
		}
	}
}

// TestRuleChange is promise 10: as many as the larger limit, and what was out on
// lease.
func TestRuleChange(t *testing.T) {
	for _, algorithm := range windowed {
		for _, counts := range [][2]int64{{500, 100}, {100, 500}} {
			changeRule(t, algorithm, counts)
		}
	}
}

func changeRule(t *testing.T, algorithm limit.Algorithm, counts [2]int64) {
	r := newRule(t, "r", limit.Spec{Algorithm: algorithm, Count: counts[0], Period: limit.Minute}, lease.Leased)
	least := counts[1] * 98 / 100
	if algorithm == limit.TokenBucket { // a larger burst has to fill first
		least = min(least, counts[0]+counts[1]/10)
	}
	err := Play(Config{Seed: 5, PoPs: 4, Relays: 2, Net: Net{Delay: limit.Millisecond}}, func(w *World) error {
		for n := range 4 {
			w.Offer(n+1, Load{Rate: 100, Parts: Key(r, "a", 1)}, 10*limit.Second)
		}
		w.after(limit.Second, func() { w.Change(r, limit.Spec{Algorithm: algorithm, Count: counts[1], Period: limit.Minute}) })
		err := w.Run(12 * limit.Second)
		if n := w.Totals(r, "a"); n.Admitted < least {
			t.Errorf("%s %v: only %d admitted", algorithm, counts, n.Admitted)
		}
		return err
	}, r)
	if err != nil {
		t.Errorf("%s %v: %v", algorithm, counts, err)
	}
}

// Change gives a rule another limit, at all replicas at once. The PoPs fetch it.
func (w *World) Change(old *Rule, spec limit.Spec) {
	before := *old
	old.Spec = spec
	w.rules.compile()
	w.world.SetRules(w.rules.set)
	for _, a := range w.ref.list {
		if a.rule == old {
			w.ref.changed(a, &before)
		}
	}
}

// churn runs PoPs that between them want twice the slots, for streams of 205 ms on
// average, and returns the most that were in use at once and how many requests were served.
func churn(t *testing.T, c Config, count int64) (most, served int64) {
	t.Helper()
	r := newRule(t, "r", limit.Spec{Algorithm: limit.Concurrency, Count: count, LeaseTTL: 2 * limit.Second}, lease.Leased)
	r.OnFailure = lease.FailureDeny
	fatal.If(t, Play(c, func(w *World) error {
		var used int64
		for _, p := range w.pops {
			var next func()
			next = func() {
				q := &request{parts: []Part{{r, "k", 1}}}
				q.Lasts = limit.Micros(10+w.rand.IntN(400)) * limit.Millisecond
				q.begin = func() { used++; served++; most = max(most, used) }
				q.over = func() { used-- }
				p.decide(q)
				w.after(limit.Micros(w.rand.Int64N(2*int64(205*limit.Millisecond)*int64(w.PoPs)/(2*count))+1), next)
			}
			next()
		}
		return w.Run(20 * limit.Second)
	}, r))
	return most, served
}

// TestConcurrency never sees more slots in use than there are, whatever the
// network does, and hardly fewer served than could be.
func TestConcurrency(t *testing.T) {
	for _, c := range []struct {
		pops  int
		count int64
	}{{1, 20}, {2, 20}, {5, 100}, {20, 100}} {
		for seed := range uint64(5) {
			for _, loss := range []float64{0, 0.05} {
				net := Net{Delay: limit.Millisecond, Spread: 30 * limit.Millisecond, LoseCall: loss, LoseReply: loss}
				most, served := churn(t, Config{Seed: seed, PoPs: c.pops, Net: net}, c.count)
				if most > c.count {
					t.Errorf("%+v, seed %d, loss %v: %d in use", c, seed, loss, most)
				}
				// Each slot serves a request in 205 ms, for 20 s.
				if could := 20_000 * c.count / 205; served < could/2 || loss == 0 && served < could*7/10 {
					t.Errorf("%+v, seed %d, loss %v: %d served of %d", c, seed, loss, served, could)
				}
			}
		}
	}
}

// TestSmallLimits: of a limit of few units no request is rejected that one exact limiter would admit, whichever PoPs it
// comes to, and no request asks twice.
func TestSmallLimits(t *testing.T) {
	play := func(f Few) {
		r, err := f.Play()
		if err != nil || r.False != 0 || r.Asks > r.Requests || r.Counted > r.Requests {
			t.Errorf("%+v: %+v, %v; want no false rejections, and no more asks than requests", f, r, err)
		}
	}
	for _, regions := range []int{1, 3} {
		for _, order := range Orders {
			play(Few{Regions: regions, Limit: 5, Percent: 100, Order: order})
			play(Few{Regions: regions, Limit: 20, Percent: 150, Order: order})
			play(Few{Regions: regions, Limit: 50, Percent: 100, Order: order})
		}
	}
	for _, order := range Orders {
		play(Few{Regions: 3, Limit: 250, Percent: 100, Order: order})
	}
}
