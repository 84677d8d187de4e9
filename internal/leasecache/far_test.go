package leasecache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// onFarCache runs a test on a lease cache of a store that is a trip away, for calls that wait so long.
func onFarCache(t *testing.T, trip, timeout time.Duration, run func(*testing.T, *leasecache.Store)) {
	inBubble(t, func(t *testing.T, start func(leasecache.Config) *leasecache.Store) {
		behind := newFar(newMemory())
		behind.after.Store(int64(trip))
		run(t, start(leasecache.Config{Store: behind, Timeout: timeout, Answers: timeout / 2}))
	})
}

// askFor is the answer to a request of so many units of one key.
func askFor(ctx context.Context, f *leasecache.Store, p *engine.Policy, n int64) lease.Grant {
	grants := []lease.Grant{{}}
	f.Acquire(ctx, []engine.Ask{{Policy: p, Key: []byte("k"), Want: lease.Want{Need: n, Waiting: n, Want: n}}}, grants)
	return grants[0]
}

// A request that finds too little just before its window ends waits for the next one, of which there is
// a lease: the store is 100 ms away, and its answer would come later.
func TestWaitsForTheNextWindow(t *testing.T) {
	t.Parallel()
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		behind.after.Store(int64(100 * time.Millisecond))
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: 10 * limit.Second}, lease.Leased)
		p.Terms = p.Terms.Afar()
		need := func(n int64) lease.Grant { return askFor(t.Context(), f, p, n) }
		flip := time.Now().Truncate(10 * time.Second).Add(10 * time.Second)
		time.Sleep(time.Until(flip.Add(-time.Second)))
		for time.Until(flip) > 60*time.Millisecond {
			need(1)
			time.Sleep(20 * time.Millisecond)
		}
		if g := need(28); g.Status != lease.OK || g.Granted != 28 {
			t.Errorf("%+v, want 28 units of the next window", g)
		}
		if late := time.Since(flip); late < 0 || late > 10*time.Millisecond {
			t.Errorf("the answer came %v after the next window began", late)
		}
	})
}

// Where the store is 150 ms away, a request that waits for its turn is admitted or denied, never
// unavailable, in a flood of eight times what the limit of a key brings.
func TestQueuedAsksAreDecidedAtADistance(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]limit.Spec{
		"bucket": {Algorithm: limit.TokenBucket, Count: 100, Period: limit.Second},
		"window": {Algorithm: limit.FixedWindow, Count: 1000, Period: 10 * limit.Second},
	} {
		t.Run(name, func(t *testing.T) {
			const lasts, timeout = 20 * time.Second, 500 * time.Millisecond
			onFarCache(t, 150*time.Millisecond, timeout, func(t *testing.T, f *leasecache.Store) {
				rnd := rand.New(rand.NewPCG(1, 2))
				p := policyOf(t, spec, lease.Leased)
				p.Terms = p.Terms.Afar()
				var callers sync.WaitGroup
				var admitted, refused atomic.Int64
				time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10 * time.Second))) // a window begins
				for begin := time.Now(); time.Since(begin) < lasts; time.Sleep(time.Duration(rnd.Int64N(int64(2500 * time.Microsecond)))) {
					callers.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), timeout)
						defer cancel()
						sent := time.Now()
						g := askFor(ctx, f, p, 1)
						switch took := time.Since(sent); {
						case took > timeout:
							t.Errorf("an answer took %v", took)
						case g.Status == lease.OK:
							admitted.Add(1)
						case g.Status == lease.Denied:
							refused.Add(1)
						default:
							t.Errorf("%+v", g)
						}
					})
				}
				callers.Wait()
				if n := admitted.Load(); n < 1900 || n > 2100 || refused.Load() < 10_000 {
					t.Errorf("admitted %d and refused %d, want nearly all of 2000 to 2100, and the rest", n, refused.Load())
				}
			})
		})
	}
}

// One request of a key costs few asks at a distance, where its lease ends unspent, and where no answer
// comes in time.
func TestOneRequestIsFewAsks(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]limit.Spec{
		"bucket":       {Algorithm: limit.TokenBucket, Count: 1000, Period: limit.Second},
		"short window": {Algorithm: limit.FixedWindow, Count: 100, Period: 10 * limit.Second},
		"window":       {Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Minute},
		"long window":  {Algorithm: limit.SlidingLog, Count: 100_000, Period: limit.Hour},
	} {
		for _, trip := range []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprint(name, " ", trip), func(t *testing.T) {
				onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) { // which waits 100 ms for an answer
					behind.after.Store(int64(trip))
					p := policyOf(t, spec, lease.Leased)
					p.Terms = p.Terms.Afar()
					for range 4 {
						before := behind.asks(p.Rule)
						ask(t, f, p, "k")
						time.Sleep(2 * time.Minute)
						if n := behind.asks(p.Rule) - before; n > 8 {
							t.Errorf("one request costs %d asks", n)
						}
					}
				})
			})
		}
	}
}
