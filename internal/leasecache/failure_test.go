package leasecache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// perMinute is a rule of a hundred a minute.
func perMinute(t testing.TB, c lease.Consistency, how lease.OnFailure) *engine.Policy {
	p := ruled(t, how.String()+fmt.Sprint(c), limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute}, c)
	p.OnFailure = how
	return p
}

// judgmentOf judges one request.
func judgmentOf(t testing.TB, j engine.Judge, p *engine.Policy, key string, cost int64) engine.Judgment {
	v := make([]engine.Judgment, 1)
	j.Judge(t.Context(), []engine.Ask{{Policy: p, Key: []byte(key), Want: lease.Want{Need: cost, Waiting: cost, Want: cost}}}, v)
	return v[0]
}

// flood sends a request to each replica in turn, every 5 ms, and counts judgments.
func (s *site) flood(t *testing.T, p *engine.Policy, key string, long time.Duration) (admitted int64, how map[engine.Degraded]int, slowest time.Duration) {
	how = map[engine.Degraded]int{}
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, j := range s.judges {
			begin := time.Now()
			v := judgmentOf(t, j, p, key, 1)
			slowest = max(slowest, time.Since(begin))
			how[v.Degraded]++
			if v.Admitted {
				admitted++
			}
		}
	}
	return admitted, how, slowest
}

// A flood while the store fails: what was denied stays denied, local holds its share, only keys never seen fail open;
// nobody waits, and the store is left alone. Afterwards it receives what was admitted, at most one limit of it.
func TestFloodWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
		for _, on := range []lease.OnFailure{lease.FailureAllow, lease.FailureDeny, lease.FailureLocal} {
			t.Run(fmt.Sprintf("%v %d", on, c), func(t *testing.T) {
				onSmallSite(t, 3, 1000, func(t *testing.T, s *site) { floodWhileFailing(t, s, perMinute(t, c, on)) })
			})
		}
	}
}

func floodWhileFailing(t *testing.T, s *site, p *engine.Policy) {
	if admitted, how, _ := s.flood(t, p, "spent", 2*time.Second); admitted < 98 || admitted > 100 || len(how) != 1 {
		t.Fatalf("before the failure %d of 100 were admitted, %v", admitted, how)
	}
	s.fail(true)
	asks := s.asks(p.Rule)
	if admitted, how, _ := s.flood(t, p, "spent", 10*time.Second); admitted > 0 {
		t.Errorf("a key that was denied admitted %d more while the store failed, %v", admitted, how)
	}
	if n := s.asks(p.Rule) - asks; n > 10*10*3+3 {
		t.Errorf("the failing store was asked %d times in 10 s by 3 replicas, want at most 10 a second each", n)
	}
	s.flood(t, p, "spent", time.Minute) // its window ends meanwhile
	if _, how, _ := s.flood(t, p, "spent", time.Second); how[engine.Sound] > 0 {
		t.Errorf("a denial lasts beyond its window while the store fails: %v", how)
	}
	admitted, how, slowest := s.flood(t, p, "new", 10*time.Second)
	requests := int64(how[engine.FailedAllow] + how[engine.FailedDeny] + how[engine.FailedLocal])
	least, most := int64(0), int64(0)
	switch p.OnFailure {
	case lease.FailureAllow:
		least, most = requests, requests
	case lease.FailureLocal:
		least, most = 3*34, 3*34
	}
	if requests < 5000 || admitted < least || admitted > most {
		t.Errorf("a key never seen: %d of %d admitted, want %d to %d; %v", admitted, requests, least, most, how)
	}
	if slowest > 10*time.Millisecond {
		t.Errorf("a request took %v of a store that fails in 2 ms", slowest)
	}
	if of := s.caches[0].Stats(); of.Failed == 0 || of.Failed > 20_000 {
		t.Errorf("%d asks failed without asking", of.Failed)
	}
	s.fail(false)
	time.Sleep(5 * time.Second)
	if got := charged(t, s.base, p, "new"); got != min(admitted, 100) {
		t.Errorf("%d were admitted without the store and %d charged afterwards, want all, at most one limit", admitted, got)
	}
	if v := judgmentOf(t, s.judges[0], p, "new", 1); v.Degraded != engine.Sound || v.Admitted != (admitted < 100) {
		t.Errorf("afterwards: %+v", v)
	}
}

// What a failure admitted for a request that was rejected elsewhere is taken back.
func TestRefund(t *testing.T) {
	onSmallSite(t, 1, 1000, func(t *testing.T, s *site) {
		deny, local, allow := perMinute(t, lease.Exact, lease.FailureDeny), perMinute(t, lease.Exact, lease.FailureLocal), perMinute(t, lease.Exact, lease.FailureAllow)
		s.fail(true)
		for range 5 {
			var asks []engine.Ask
			for _, p := range []*engine.Policy{local, deny, allow} {
				asks = append(asks, engine.Ask{Policy: p, Key: []byte("k"), Group: 1, Want: lease.Want{Need: 60, Waiting: 60, Want: 60}})
			}
			v := make([]engine.Judgment, len(asks))
			s.judges[0].Judge(t.Context(), asks, v)
			if v[0].Admitted || v[2].Admitted || v[0].Rejected || !v[1].Rejected {
				t.Fatalf("%+v, want only the second one rejected, and none admitted", v)
			}
		}
		s.fail(false)
		time.Sleep(5 * time.Second)
		for _, p := range []*engine.Policy{deny, local, allow} {
			if got := charged(t, s.base, p, "k"); got != 0 {
				t.Errorf("rule %s: %d charged for requests that were rejected", p.Rule, got)
			}
		}
	})
}

// What was admitted without the store, which does not confirm it, is told at the end.
func TestDrainTellsDebts(t *testing.T) {
	onSmallSite(t, 1, 10, func(t *testing.T, s *site) {
		s.fail(true)
		judgmentOf(t, s.judges[0], perMinute(t, lease.Leased, lease.FailureAllow), "k", 5)
		if d := drainOf(t, s.caches[0]); d.Owed != 5 {
			t.Errorf("%+v, want 5 units owed", d)
		}
	})
}

// A caller that leaves early does not make others take the store for away.
func TestEarlyLeaverIsNoFailure(t *testing.T) {
	onSmallSite(t, 1, 1000, func(t *testing.T, s *site) {
		p := perMinute(t, lease.Leased, lease.FailureAllow)
		s.stores[0].after.Store(int64(20 * time.Millisecond))
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			s.judges[0].Judge(ctx, []engine.Ask{one(p, "k", 0)}, make([]engine.Judgment, 1))
			cancel()
			if v := judgmentOf(t, s.judges[0], p, "k", 2); v.Degraded != engine.Sound {
				t.Fatalf("beside callers that leave early: %+v", v)
			}
		}
	})
}

// What comes back of a key that is in use goes to the store when that answers again; of an idle one it may be lost.
func TestGiveBacksWhileTheStoreFails(t *testing.T) {
	for _, c := range []lease.Consistency{lease.Exact, lease.Leased} {
		onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
			p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Hour}, c)
			if c == lease.Leased {
				p.Terms = p.Terms.ForAggregator()
			}
			var g lease.Grant
			for range 500 {
				g = ask(t, f, p, "k")
				time.Sleep(10 * time.Millisecond)
			}
			if g.Granted != 1 {
				t.Fatalf("%v: %+v", c, g)
			}
			behind.down.Store(true)
			back := engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Need: 900, Waiting: 900, Want: 900, Unused: 1, Lease: g.Lease}}
			for range 400 { // for more than its leases
				within(t, f, time.Minute, back)
				time.Sleep(100 * time.Millisecond)
			}
			behind.down.Store(false)
			ask(t, f, p, "k")
			time.Sleep(20 * time.Second)
			if got := charged(t, behind.Store, p, "k"); got > 100+40 {
				t.Errorf("%v: %d are charged, want about 100 of 500", c, got)
			}
		})
	}
}

// A node that hangs makes its own keys unavailable, and no others: neither of the
// same call nor of the same request, whatever their consistency.
func TestHungNodeHoldsUpNoOther(t *testing.T) {
	hour := limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour}
	kinds := []lease.Consistency{lease.Leased, lease.Exact}
	for _, budget := range []time.Duration{20, 50, 100, 200} {
		for _, group := range []uint32{0, 1} {
			for _, hung := range kinds {
				for _, well := range kinds {
					t.Run(fmt.Sprintf("%d ms, group %d, hung %v, well %v", budget, group, hung, well), func(t *testing.T) {
						onShards(t, func(t *testing.T, f *leasecache.Store, behind *shards) {
							a, b := ruled(t, "a", hour, hung), ruled(t, "b", hour, well)
							g := within(t, f, budget*time.Millisecond, one(a, "hung", group), one(b, "well", group))
							if g[0].Status != lease.Unavailable || g[1].Granted != 1 {
								t.Errorf("beside a node that hangs: %+v", g)
							}
							time.Sleep(time.Second)
							if units := charged(t, behind.Store, b, "well"); well == lease.Exact && units != 1 {
								t.Errorf("%d were charged, want 1", units)
							}
						})
					})
				}
			}
		}
	}
}
