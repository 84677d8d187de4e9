package leasecache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

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

// All units of a lease that runs come back, also when a key was idle for so long that the
// cache may have forgotten it.
func TestUnitsOfAnIdleKeyComeBack(t *testing.T) {
	for name, spec := range algorithms {
		for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
			t.Run(fmt.Sprintf("%s, %v", name, c), func(t *testing.T) {
				spec.Count, spec.Period = 100, limit.Hour
				onSite(t, 1, func(t *testing.T, s *site) {
					p := ruled(t, "hot", spec, c)
					a := &client{t: t, store: s.caches[0], policy: p}
					grants := a.acquire(a.ask(p, 0, 20, 20))
					time.Sleep(5 * time.Second) // the cache looks for idle keys every two
					grants = append(grants, a.acquire(a.ask(p, 0, 5, 5))...)
					for _, g := range grants {
						back := a.ask(p, 0, 0, 0)
						back.Want.Unused, back.Want.Lease = g.Granted, g.Lease
						a.acquire(back)
					}
					time.Sleep(20 * time.Second) // what the cache took back lapses
					if got := charged(t, s.base, p, "hot"); got != 0 {
						t.Errorf("%d are charged of 25 that came back", got)
					}
					if keys := s.caches[0].Stats().Keys; keys != 0 {
						t.Errorf("%d keys are cached, of which nothing is on lease", keys)
					}
				})
			})
		}
	}
}

// Those that are asked for one after the other, each by itself, get what is left after
// those before them: no two asks of a key are out at once, of which one would not count what
// the other is being granted.
func TestEachIsToldWhatIsLeft(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		p := ruled(t, "hour", limit.Spec{Algorithm: limit.FixedWindow, Count: 200, Period: limit.Hour}, lease.Leased)
		c := &client{t: t, store: s.caches[0], policy: p}
		for left := int64(200); left >= 6; {
			for i, g := range c.acquire(c.ask(p, 0, 1, 1), c.ask(p, 0, 1, 1), c.ask(p, 0, 4, 4)) {
				if left -= []int64{1, 1, 4}[i]; g.Status != lease.OK || g.Remaining+g.Granted-[]int64{1, 1, 4}[i] != left {
					t.Errorf("%d left after ask %d: %+v", left, i+1, g)
				}
			}
		}
	})
}
