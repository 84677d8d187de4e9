package leasecache_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// believing fails its test when it gets a give-back that no store takes.
type believing struct {
	*memory.Store
	t testing.TB
}

func (s *believing) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	for i := range asks {
		if a := &asks[i]; a.Policy.Terms.Lies(a.Want.Unused) {
			s.t.Errorf("the cache gives back %d units of a limit of %d", a.Want.Unused, a.Policy.Terms.Capacity)
		}
	}
	s.Store.Acquire(ctx, asks, grants)
}

// TestGiveBackStaysCredible: what a holder gives back at most, and what the cache itself has left of
// the lease, go to the store one after the other. Together they would be a lie of the replica, and
// the units of the others would be lost with it.
func TestGiveBackStaysCredible(t *testing.T) {
	inBubble(t, func(t *testing.T, start func(leasecache.Config) *leasecache.Store) {
		f := start(leasecache.Config{Store: &believing{newMemory(), t}, MaxKeys: 100})
		p := ruled(t, "hot", limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Hour}, lease.Leased)
		c := &client{t: t, store: f, policy: p}
		for after := 9 * time.Second; after < 12*time.Second; after += 100 * time.Millisecond { // around the end of a lease
			g := c.acquire(c.ask(p, 0, 5, 100))[0]
			if g.Granted == 0 {
				t.Fatalf("%+v", g)
			}
			time.Sleep(after)
			most := c.ask(p, 0, 0, 0)
			most.Want.Unused, most.Want.Lease = 2000, g.Lease
			c.acquire(most, c.ask(p, 0, 5, 100))
		}
	})
}
