package leasecache_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// far is a store across a network: it answers after a while, or not in time.
type far struct {
	*memory.Store
	after atomic.Int64 // time.Duration
	down  atomic.Bool
	calls atomic.Int64
	asks  atomic.Int64
	// called receives each call; nil: nothing does.
	called func(context.Context)
}

func (f *far) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if f.called != nil {
		f.called(ctx)
	}
	f.calls.Add(1)
	f.asks.Add(int64(len(asks)))
	delay := time.Duration(f.after.Load())
	select {
	case <-ctx.Done():
		delay = -1
	case <-time.After(delay):
	}
	if delay < 0 || f.down.Load() {
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
		return
	}
	f.Store.Acquire(ctx, asks, grants)
}

// onCache runs a test in virtual time on a lease cache of a store that is 2 ms away.
func onCache(t *testing.T, run func(*testing.T, *leasecache.Store, *far)) {
	synctest.Test(t, func(t *testing.T) {
		behind := &far{Store: memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30})}
		behind.after.Store(int64(2 * time.Millisecond))
		f := leasecache.New(leasecache.Config{Store: behind, MaxKeys: 10_000, MaxBytes: 1 << 30})
		go func() { _ = f.Run(t.Context()) }()
		run(t, f, behind)
	})
}

func policyOf(t testing.TB, spec limit.Spec, c lease.Consistency) *engine.Policy {
	t.Helper()
	l, err := limit.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return engine.NewPolicy("r", 0, l, lease.NewTerms(l, c, 0, 0, 0))
}

func ask(t testing.TB, s engine.Store, p *engine.Policy, key string) lease.Grant {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	grants := make([]lease.Grant, 1)
	s.Acquire(ctx, []engine.Ask{{Policy: p, Key: []byte(key), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}, grants)
	return grants[0]
}

// flood asks for one key from many callers, each at once again, for so long.
func flood(t *testing.T, s engine.Store, p *engine.Policy, long time.Duration) (asked, granted int64) {
	var all sync.WaitGroup
	var a, g atomic.Int64
	end := time.Now().Add(long)
	for range 20 {
		all.Go(func() {
			for time.Now().Before(end) {
				a.Add(1)
				g.Add(ask(t, s, p, "hot").Granted)
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	all.Wait()
	return a.Load(), g.Load()
}

// A hot key that is under its limit is served from a lease.
func TestHotKeyIsServedFromALease(t *testing.T) {
	t.Parallel()
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10_000_000, Period: limit.Hour}, lease.Leased)
		flood(t, f, p, time.Second)
		before := behind.asks.Load()
		asked, granted := flood(t, f, p, 3*time.Second)
		if granted < asked*99/100 {
			t.Errorf("granted %d of %d", granted, asked)
		}
		if asks := behind.asks.Load() - before; asks > 3*60 {
			t.Errorf("%d requests made %d asks in 3 s, want at most 60 a second at any rate", asked, asks)
		}
	})
}

// What a caller no longer waits for is not lost.
func TestCallerThatLeft(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 5, Period: limit.Hour}, lease.Exact)
		behind.after.Store(int64(50 * time.Millisecond))
		var all sync.WaitGroup
		for range 3 { // the second and third wait for the first one's ask, not for long
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
				defer cancel()
				f.Acquire(ctx, []engine.Ask{{Policy: p, Key: []byte("k"), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}, make([]lease.Grant, 1))
			})
		}
		all.Wait()
		behind.after.Store(int64(time.Millisecond))
		time.Sleep(time.Second)
		granted := 0
		for range 10 {
			granted += int(ask(t, f, p, "k").Granted)
			time.Sleep(200 * time.Millisecond)
		}
		if granted < 3 || granted > 4 {
			t.Errorf("%d left of 5 after one was granted and two callers left, want 4, or 3 if one was served in time", granted)
		}
	})
}

// A thousand requests of one key wait at once. When they are answered, the key takes as much memory as any: what it
// takes beside that is not bounded by MaxBytes.
func TestEmptyQueueTakesNoMemory(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1_000_000, Period: limit.Hour}, lease.Leased)
		behind.after.Store(int64(50 * time.Millisecond))
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { ask(t, f, p, "k") })
		}
		all.Wait()
		if room := f.Queues(); room > 0 || f.Stats().Keys != 1 {
			t.Errorf("the queue has memory for %d asks although nobody waits: %+v", room, f.Stats())
		}
	})
}

// Idle keys give back what they have on lease and are forgotten.
func TestIdleKeysAreForgotten(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Hour}, lease.Leased)
		for range 20 {
			ask(t, f, p, "k")
		}
		time.Sleep(20 * time.Second)
		if keys := f.Stats().Keys; keys != 0 {
			t.Errorf("%d keys are remembered after 20 s", keys)
		}
		grants := make([]lease.Grant, 1)
		behind.Store.Acquire(t.Context(), []engine.Ask{{Policy: p, Key: []byte("k")}}, grants)
		if grants[0].Remaining != 980 {
			t.Errorf("%d remain of 1000 after 20 requests, want 980", grants[0].Remaining)
		}
	})
}
