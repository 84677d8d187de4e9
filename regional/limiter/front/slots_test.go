package front_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/limiter"
)

func takeSlot(c *client, p *limiter.Policy, op limiter.SlotOp, id uint64) lease.Grant {
	a := limiter.Ask{Policy: p, Key: []byte("hot"), Op: op, Holder: id}
	if op == limiter.Take {
		a.Want = lease.Want{Need: 1, Waiting: 1, Want: 1}
	}
	return c.acquire(a)[0]
}

// A flood of requests for slots of a key that is full costs ten asks a second. A slot
// that comes free at this replica is found at once, one that comes free elsewhere
// within a lease interval.
func TestFloodForSlotsIsRefusedFromMemory(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		p := ruled(t, "slots", limit.Spec{Algorithm: limit.Concurrency, Count: 3, LeaseTTL: limit.Hour}, lease.Leased)
		a, b := &client{t: t, store: s.fronts[0]}, &client{t: t, store: s.fronts[1]}
		for id := range uint64(3) {
			if g := takeSlot(a, p, limiter.Take, id+1); g.Granted != 1 {
				t.Fatalf("slot %d: %+v", id, g)
			}
		}
		var ids atomic.Uint64
		ids.Store(100)
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if g := takeSlot(a, p, limiter.Take, ids.Add(1)); g.Status != lease.Denied || g.AskAfter == 0 || g.Limit != 3 {
				t.Fatalf("a fourth slot of three: %+v", g)
			}
		}
		if asks := s.stores[0].most("slots"); asks > 3+100 {
			t.Errorf("%d asks in ten seconds for a key that is full, want at most 100 and the three that were granted", asks)
		}

		takeSlot(a, p, limiter.Release, 1)
		if g := takeSlot(a, p, limiter.Take, 4); g.Granted != 1 {
			t.Errorf("after one was released here: %+v", g)
		}
		takeSlot(a, p, limiter.Take, 5)
		takeSlot(b, p, limiter.Release, 2)
		time.Sleep(110 * time.Millisecond)
		if g := takeSlot(a, p, limiter.Take, 6); g.Granted != 1 {
			t.Errorf("a lease interval after one was released elsewhere: %+v", g)
		}
	})
}
