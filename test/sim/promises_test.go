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
