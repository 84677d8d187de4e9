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

// What holders give back at most goes to the store one after the other. Together it would be a lie of the replica, and the
// units of all of them would be lost with it.
func TestGiveBackStaysCredible(t *testing.T) {
	inBubble(t, func(t *testing.T, start func(leasecache.Config) *leasecache.Store) {
		f := start(leasecache.Config{Store: &believing{newMemory(), t}})
		c := &client{t: t, store: f, policy: policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Hour}, lease.Leased)}
		most := c.ask(c.policy, 0, 0, 0)
		most.Want.Unused, most.Want.Lease = 2000, 7 // of a lease that another replica has cut
		c.acquire(most, most)
		c.acquire(most, c.ask(c.policy, 0, 5, 100))
		time.Sleep(time.Second)
	})
}
