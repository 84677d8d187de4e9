package leasecache_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

func takeSlot(c *client, p *engine.Policy, op engine.Op, id uint64) lease.Grant {
	a := engine.Ask{Policy: p, Key: []byte("hot"), Op: op, Holder: id}
	if op == engine.Take {
		a.Want = lease.Want{Need: 1, Waiting: 1, Want: 1}
	}
	return c.acquire(a)[0]
}

// slotsOf is a limit of so many slots.
func slotsOf(t testing.TB, count int64) *engine.Policy {
	return ruled(t, "slots", limit.Spec{Algorithm: limit.Concurrency, Count: count, LeaseTTL: limit.Hour}, lease.Leased)
}

// noneOfNobody checks that every ask for slots named who holds them.
func (s *shards) noneOfNobody(t testing.TB) {
	t.Helper()
	for _, a := range s.asks("slots") {
		if a.Holder == 0 {
			t.Errorf("slots of nobody were reported to the store: %+v", a)
		}
	}
}

// A request that is denied by another rule leaves a holder the slots that it uses,
// whoever denied it.
func TestDeniedGroupLeavesSlotsInUse(t *testing.T) {
	hour := limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Hour}
	for name, consistency := range map[string]lease.Consistency{"exact": lease.Exact, "leased": lease.Leased} {
		t.Run(name, func(t *testing.T) {
			onShards(t, func(t *testing.T, f *leasecache.Store, behind *shards) {
				rate, slots := ruled(t, "rate", hour, consistency), slotsOf(t, 3)
				ask(t, behind.Store, rate, "k") // by another replica
				for seq := range uint64(5) {
					hold := one(slots, "k", 1)
					hold.Holder, hold.Seq, hold.Want.Holding, hold.Want.Want = 7, seq+1, 1, 2
					g := within(t, f, 100*time.Millisecond, one(rate, "k", 1), hold)
					if g[0].Status != lease.Denied || g[1].Status != lease.OK || seq == 0 && (g[1].Granted != 1 || g[1].TTL == 0) {
						t.Errorf("of a denied group with one slot in use: %+v", g)
					}
					time.Sleep(150 * time.Millisecond)
				}
				behind.noneOfNobody(t)
				if used := charged(t, behind.Store, slots, "k"); used != 1 {
					t.Errorf("%d slots are held, want the one in use", used)
				}
			})
		})
	}
}

// However many take at once, a key that is full is asked for ten times a second.
func TestFloodOfTakersAtOnce(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		p, c := slotsOf(t, 1), &client{t: t, store: s.caches[0]}
		takeSlot(c, p, engine.Take, 1)
		var all sync.WaitGroup
		for id := range uint64(12_000) {
			all.Go(func() { takeSlot(c, p, engine.Take, 2+id) })
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		if asks := s.most("slots"); asks > 110 {
			t.Errorf("%d asks in ten seconds for a key that is full", asks)
		}
	})
}

// Slots that are free are found though many ask at once, also long after a denial.
func TestFreeSlotsAreFoundByManyAtOnce(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		p := slotsOf(t, 20)
		c := &client{t: t, store: s.caches[0]}
		takeAll := func(first uint64) (taken int) {
			var all sync.WaitGroup
			var n atomic.Int64
			for id := range uint64(20) {
				all.Go(func() { n.Add(takeSlot(c, p, engine.Take, first+id).Granted) })
			}
			all.Wait()
			return int(n.Load())
		}
		if n := takeAll(1); n != 20 {
			t.Errorf("%d of 20 slots were taken", n)
		}
		if n := takeAll(101); n != 0 {
			t.Errorf("%d slots more were taken", n)
		}
		for id := range uint64(20) {
			takeSlot(c, p, engine.Release, id+1)
		}
		if n := takeAll(201); n != 20 {
			t.Errorf("%d of 20 slots were taken after all were released here", n)
		}
		takeAll(301)
		for id := range uint64(20) {
			takeSlot(&client{t: t, store: s.base}, p, engine.Release, id+201)
		}
		time.Sleep(2 * time.Second)
		if n := takeAll(401) + takeAll(501); n != 20 { // one finds out, and then the others
			t.Errorf("%d of 20 slots were taken long after all were released elsewhere", n)
		}
	})
}

// A request for slots whose caller has left gives them back, and so does one of a
// key for which there is no room.
func TestTakerThatLeft(t *testing.T) {
	onShards(t, func(t *testing.T, f *leasecache.Store, behind *shards) {
		p := slotsOf(t, 3)
		take := one(p, "k", 0)
		take.Op, take.Holder = engine.Take, 5
		if g := within(t, f, time.Millisecond, take); g[0].Status != lease.Unavailable {
			t.Fatalf("of a store that is 2 ms away, in 1 ms: %+v", g)
		}
		time.Sleep(time.Second)
		behind.noneOfNobody(t)
		if used := charged(t, behind.Store, p, "k"); used != 0 {
			t.Errorf("%d slots are held by nobody", used)
		}
	})
}
