package leasecache_test

import (
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// look asks what remains, and charges nothing.
func look(p *engine.Policy, group uint32) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte("hot"), Group: group}
}

// A question about an exact rule is answered by what the store answers after it was
// asked, alone and in a group, and so is a request: what others have spent is spent.
func TestExactPeekIsNotStale(t *testing.T) {
	for name, spec := range algorithms {
		t.Run(name, func(t *testing.T) {
			spec.Count, spec.Period = 10, limit.Hour
			onSite(t, 2, func(t *testing.T, s *site) {
				p, free := ruled(t, "hot", spec, lease.Exact), ruled(t, "free", spec, lease.Leased)
				a, b := &client{t: t, store: s.caches[0], policy: p}, &client{t: t, store: s.caches[1], policy: p}
				for left := int64(10); left > 0; left-- {
					single(b, 1)
					if g := a.acquire(look(p, 0))[0]; g.Status != lease.OK || g.Remaining != left-1 {
						t.Errorf("%d left, the replica that did not spend it answers %+v", left-1, g)
					}
					if g := a.acquire(look(p, 1), a.ask(free, 1, 1, 1)); g[0].Status != lease.OK || g[0].Remaining != left-1 || g[1].Granted != 1 {
						t.Errorf("%d left, in a group: %+v", left-1, g)
					}
				}
				if n := single(a, 1); n != 0 {
					t.Errorf("granted %d of what another replica has spent", n)
				}
			})
		})
	}
}

// What is left is unknown while the store is down; when it is back, what was
// admitted meanwhile is not left, although it was not reported to the store.
func TestExactPeekWhileTheStoreIsDown(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := perHour(t)
		p.OnFailure = lease.FailureAllow
		c := &client{t: t, store: f}
		behind.down.Store(true)
		for range 2 { // the second while the store is left alone
			if g := c.acquire(look(p, 0))[0]; g.Status != lease.Unavailable {
				t.Errorf("a store that is down: %+v", g)
			}
		}
		debt := c.ask(p, 0, 3, 3)
		if v := f.Fall(&debt, 1); !v.Admitted {
			t.Errorf("on_failure: allow refuses: %+v", v)
		}
		behind.down.Store(false)
		time.Sleep(130 * time.Millisecond)
		if g := c.acquire(look(p, 0))[0]; g.Status != lease.OK || g.Remaining != 97 {
			t.Errorf("3 of 100 were admitted while the store was down: %+v", g)
		}
	})
}

// A flood of questions about one exact key costs one ask for all that come during a
// round trip; and hardly any while the key is known to have nothing left, whether
// requests are refused besides or not.
func TestFloodOfExactPeeks(t *testing.T) {
	t.Parallel()
	onSite(t, 1, func(t *testing.T, s *site) {
		p := perHour(t)
		other := ruled(t, "other", limit.Spec{Algorithm: limit.FixedWindow, Count: 1 << 20, Period: limit.Hour}, lease.Leased)
		c := &client{t: t, store: s.caches[0], policy: p}
		flood := func(long time.Duration) {
			var all sync.WaitGroup
			for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(500 * time.Microsecond) {
				all.Go(func() {
					if g := c.acquire(look(p, 0))[0]; g.Status != lease.OK {
						t.Errorf("in a flood of questions: %+v", g)
					}
				})
				all.Go(func() {
					if g := c.acquire(look(p, 1), c.ask(other, 1, 1, 1)); g[0].Status != lease.OK {
						t.Errorf("in a flood of groups: %+v", g)
					}
				})
			}
			all.Wait()
		}
		asks := func() int { return s.stores[0].asks("hour") }
		if flood(time.Second); asks() > 502 {
			t.Errorf("%d asks in 500 round trips", asks())
		}
		c.acquire(c.ask(p, 0, 100, 100))
		before := asks()
		if flood(time.Second); asks()-before > 11 {
			t.Errorf("%d asks in a second for a key that has nothing left", asks()-before)
		}
		before = asks()
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			single(c, 1)
			flood(10 * time.Millisecond)
		}
		if asks()-before > 11 {
			t.Errorf("%d asks in a second for a key that refuses", asks()-before)
		}
	})
}
