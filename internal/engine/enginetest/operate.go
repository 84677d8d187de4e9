package enginetest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// operate looks at a counter, or resets it.
func operate(t testing.TB, s engine.Store, op engine.Op, p *engine.Policy, key string) lease.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	g := make([]lease.Grant, 1)
	s.Acquire(ctx, []engine.Ask{{Policy: p, Key: []byte(key), Op: op}}, g)
	if g[0].Status != lease.OK || g[0].Limit != p.Terms.Capacity || (g[0].Granted > 0) != (g[0].TTL > 0) {
		t.Fatalf("operation %d: %+v, want OK, the limit, and a time for what is out", op, g[0])
	}
	return g[0]
}

// lookAndReset: who looks changes nothing. A reset counter is a new one, whatever its cache was denied, and other keys
// are not affected.
func lookAndReset(t *testing.T, s Subject) {
	everyAlgorithm(t, 100, limit.Hour, func(t *testing.T, spec limit.Spec) {
		_, store, p := s.begin(t, spec, exact)
		if g := operate(t, store, engine.Look, p, "k"); g.Remaining != 100 || g.Granted != 0 {
			t.Fatalf("of a new key: %+v", g)
		}
		for round := range 3 {
			acquire(t, store, p, "k", one(30))
			acquire(t, store, p, "other", one(10))
			if g := operate(t, store, engine.Look, p, "k"); g.Remaining != 70 || g.Granted != 0 || g.Reset <= 0 || g.RetryAfter != 0 {
				t.Fatalf("round %d, after 30: %+v", round, g)
			}
			leaves(t, store, p, "k", 70, "after a look")
			rejected(t, acquire(t, store, p, "k", one(1)), "before the reset")
			if g := operate(t, store, engine.Look, p, "k"); g.RetryAfter <= 0 || g.RetryAfter > lease.Millis(limit.Hour/limit.Millisecond) {
				t.Fatalf("round %d, of a key without units: %+v", round, g)
			}
			if g := operate(t, store, engine.Reset, p, "k"); g.Remaining != 100 || g.Granted != 0 || g.Reset != 0 {
				t.Fatalf("round %d, reset: %+v", round, g)
			}
			if g := operate(t, store, engine.Look, p, "k"); g.Remaining != 100 {
				t.Fatalf("round %d, after the reset: %+v", round, g)
			}
		}
		leaves(t, store, p, "k", 100, "after the reset")
		leaves(t, store, p, "other", 70, "of another key")
		operate(t, store, engine.Reset, p, "nobody asked for it")
	})
}

// resetUnderLeases has holders take, spend and give back leases while the counter is reset: from then on no more is
// spent than the limit and what the reset found out on lease, and nothing less can be had.
func resetUnderLeases(t *testing.T, s Subject) {
	everyAlgorithm(t, 100, limit.Hour, func(t *testing.T, spec limit.Spec) {
		for seed := range uint64(8) {
			random := rand.New(rand.NewPCG(seed, 1))
			_, store, p := s.begin(t, spec)
			var leases []lease.Grant // what the holders have, unspent
			var spent, most int64    // since the last reset
			most = 100
			for step := range 60 {
				switch n := len(leases); {
				case random.IntN(20) == 0:
					held := int64(0)
					for _, g := range leases {
						held += g.Granted
					}
					g := operate(t, store, engine.Reset, p, "k")
					if g.Granted < min(held, 200) || !s.Cached && g.Granted > 200 {
						t.Fatalf("seed %d, step %d: the reset found %d on lease, holders have %d", seed, step, g.Granted, held)
					}
					spent, most = 0, 100+max(g.Granted, held)
				case n > 0 && random.IntN(4) == 0: // some come back
					some := random.Int64N(leases[0].Granted + 1)
					acquire(t, store, p, "k", lease.Want{Unused: some, Lease: leases[0].Lease})
					spent, leases = spent+leases[0].Granted-some, leases[1:]
				case n > 0 && random.IntN(4) == 0:
					spent, leases = spent+leases[0].Granted, leases[1:]
				default:
					if g := acquire(t, store, p, "k", lease.Want{Need: 1, Waiting: 1, Want: 1 + random.Int64N(30), Fresh: true}); g.Granted > 0 {
						leases = append(leases, g)
					}
				}
				if spent > most {
					t.Fatalf("seed %d, step %d: %d were spent, want at most %d", seed, step, spent, most)
				}
			}
			operate(t, store, engine.Reset, p, "k")
			if got := drain(t, store, p, "k"); got < 100 || !s.Cached && got != 100 {
				t.Fatalf("seed %d: %d were left after a reset", seed, got)
			}
		}
	})
}

// resetKeepsSlots: slots that are held stay held.
func resetKeepsSlots(t *testing.T, s Subject) {
	_, store, p := s.begin(t, slotted(5))
	operate(t, store, engine.Look, p, "k")
	state(t, store, p, 1, 1, 0, 2)
	forRequest(t, store, p, engine.Take, 9, 1)
	for _, op := range []engine.Op{engine.Look, engine.Reset, engine.Look} {
		if g := operate(t, store, op, p, "k"); g.Remaining != 2 || g.Granted != 0 {
			t.Errorf("operation %d: %+v, want 2 of 5 slots free", op, g)
		}
	}
	rejected(t, forRequest(t, store, p, engine.Take, 10, 3), "beside three that are held")
}

// blocks: a key that asks for more when its limit is used up is blocked, until the block ends or the counter is reset. Units
// that are reserved are not used up. Other keys are not affected.
func blocks(t *testing.T, s Subject) {
	everyAlgorithm(t, 5, limit.Minute, func(t *testing.T, spec limit.Spec) {
		spec.Block, spec.Reserves = limit.Hour, spec.Algorithm != limit.SlidingLog
		clk, store, p := s.begin(t, spec, exact)
		first := acquire(t, store, p, "k", one(5))
		if spec.Reserves {
			if g := acquire(t, store, p, "k", one(1)); g.Status != lease.Denied || g.Block != 0 || g.RetryAfter > 1000 {
				t.Errorf("while all is reserved: %+v", g)
			}
			acquire(t, store, p, "k", lease.Want{Settled: 5, Lease: first.Lease})
			clk.advance(limit.Second)
		}
		if g := acquire(t, store, p, "k", one(1)); g.Status != lease.Denied || g.Block != limit.BlockBegan || g.RetryAfter != 3_600_000 {
			t.Errorf("after the last unit: %+v", g)
		}
		clk.advance(20 * limit.Minute)
		if g := acquire(t, store, p, "k", one(1)); g.Status != lease.Denied || g.Block != limit.Blocked || g.RetryAfter != 2_400_000 {
			t.Errorf("when the window is over: %+v", g)
		}
		acquire(t, store, p, "other", one(5))
		if g := operate(t, store, engine.Look, p, "k"); g.Block != limit.Blocked || g.RetryAfter != 2_400_000 || g.Remaining != 0 {
			t.Errorf("who looks: %+v", g)
		}
		if g := operate(t, store, engine.Reset, p, "k"); g.Block != 0 || g.Remaining != 5 {
			t.Errorf("reset: %+v", g)
		}
		clk.advance(limit.Second)
		if g := acquire(t, store, p, "k", one(5)); g.Granted != 5 {
			t.Errorf("after the reset: %+v", g)
		}
	})
}
