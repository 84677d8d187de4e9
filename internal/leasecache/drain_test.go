package leasecache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// drainOf drains a lease cache within a second.
func drainOf(t *testing.T, f *leasecache.Store) leasecache.Drained {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return f.Drain(ctx)
}

// Whatever was asked, granted and given back, and wherever, of keys for which a replica has room or has not: when all
// replicas have been drained, the store has all but what was spent. Of windows and logs a replica takes back no more than
// it remembers to have handed out of a lease: what comes back elsewhere, or to a key that has lost its entry, is lost.
func TestDrainLosesNoUnits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		spec := algorithms[rapid.SampledFrom([]string{"bucket", "fixed", "first request", "sliding", "log"}).Draw(r, "algorithm")]
		spec.Count, spec.Period = rapid.Int64Range(1, 1000).Draw(r, "count"), limit.Day
		room := rapid.SampledFrom([]int{1, 2, 4, 1000}).Draw(r, "room")
		trace := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) spending {
			return spending{
				pause: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 7, 60}).Draw(r, "pause")) * time.Millisecond,
				key:   rapid.IntRange(0, 9).Draw(r, "key"),
				at:    rapid.IntRange(0, 1).Draw(r, "at"),
				back:  rapid.IntRange(0, 1).Draw(r, "back"),
				cost:  rapid.Int64Range(0, spec.Count/5+1).Draw(r, "cost"),
				ahead: rapid.Int64Range(0, spec.Count/3).Draw(r, "ahead"),
			}
		}), 1, 100).Draw(r, "trace")
		rest := time.Duration(rapid.IntRange(0, 3).Draw(r, "rest")) * time.Millisecond // an ask travels for two
		synctest.Test(t, func(t *testing.T) {
			base, p := newMemory(), ruled(t, "hot", spec, lease.Leased)
			var caches [2]*leasecache.Store
			for i := range caches {
				caches[i] = start(t, leasecache.Config{Store: newFar(base), MaxKeys: room})
			}
			var spent, lost [10]atomic.Int64 // of each key; lost: at most
			var all sync.WaitGroup
			for _, step := range trace {
				time.Sleep(step.pause)
				all.Go(func() {
					units, back := step.play(t, caches, p)
					spent[step.key].Add(units)
					if spec.Algorithm != limit.TokenBucket && (step.at != step.back || room < 10) {
						lost[step.key].Add(back)
					}
				})
			}
			all.Wait()
			time.Sleep(rest)
			for i, f := range caches {
				if d := drainOf(t, f); d.Lost != 0 || d.Owed != 0 {
					r.Errorf("replica %d: %+v", i, d)
				}
			}
			time.Sleep(time.Second) // nothing is asked for any more
			for key := range spent {
				got, least := charged(t, base, p, fmt.Sprint(key)), spent[key].Load()
				if got < least || got > least+lost[key].Load() {
					r.Errorf("key %d: %d are charged, %d were spent and %d may be lost", key, got, least, lost[key].Load())
				}
			}
		})
	})
}

// spending is a holder that takes units of a key at one replica, keeps its cost, and gives the rest back at another.
type spending struct {
	pause         time.Duration
	key, at, back int
	cost, ahead   int64
}

// play returns how many units were spent, and how many came back.
func (w *spending) play(t *testing.T, caches [2]*leasecache.Store, p *engine.Policy) (spent, back int64) {
	a := engine.Ask{Policy: p, Key: fmt.Append(nil, w.key), Want: lease.Want{Need: w.cost, Waiting: w.cost, Want: w.cost + w.ahead}}
	g := within(t, caches[w.at], 100*time.Millisecond, a)[0]
	if g.Granted <= w.cost {
		return g.Granted, 0
	}
	a.Want = lease.Want{Unused: g.Granted - w.cost, Lease: g.Lease}
	within(t, caches[w.back], 100*time.Millisecond, a)
	return w.cost, a.Want.Unused
}

// A node that hangs holds up the end for as long as it may, and no longer; it keeps no units of others, and what it has not
// confirmed is logged.
func TestDrainWhileANodeHangs(t *testing.T) {
	onShards(t, func(t *testing.T, f *leasecache.Store, behind *shards) {
		behind.sound.Store(true)
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100_000, Period: limit.Hour}, lease.Leased)
		key := func(i int) string { return fmt.Sprint([]string{"well", "hung"}[i%2], i%1000) }
		for i := range 3000 {
			ask(t, f, p, key(i))
		}
		time.Sleep(time.Second) // what was asked for ahead arrives
		hung := int64(0)
		for i := 1; i < 1000; i += 2 {
			hung += charged(t, behind.Store, p, key(i)) - 3
		}
		behind.sound.Store(false)
		begin := time.Now()
		if d := drainOf(t, f); d.Units == 0 || d.Lost != hung || hung == 0 {
			t.Errorf("drained %+v, the node that hangs has %d", d, hung)
		}
		if took := time.Since(begin); took > 1010*time.Millisecond {
			t.Errorf("took %v of a second", took)
		}
		for i := 0; i < 1000; i += 2 {
			if got := charged(t, behind.Store, p, key(i)); got != 3 {
				t.Errorf("%d are charged of key %s, of which 3 were spent", got, key(i))
			}
		}
	})
}

// Requests that were rejected from memory count where rejected requests do.
func TestDrainReportsWhatWasRejected(t *testing.T) {
	for _, charges := range []bool{true, false} {
		onShards(t, func(t *testing.T, f *leasecache.Store, behind *shards) {
			p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Hour, ChargeRejected: charges}, lease.Exact)
			for range 10 {
				ask(t, f, p, "k")
			}
			drainOf(t, f)
			reported := int64(0)
			for _, a := range behind.asks("r") {
				reported += a.Want.Denied
			}
			if want := int64(8); charges && reported != want || !charges && reported != 0 { // one was granted, one denied by the store
				t.Errorf("%d rejected requests were reported, charged: %v", reported, charges)
			}
		})
	}
}
