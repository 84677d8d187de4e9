package leasecache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// A debt that the store cannot take is still owed, and holds up nothing else: who has a
// lease here is answered from it.
func TestDebtStillOwed(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Hour}, lease.Leased)
		for range 100 { // a lease of some size
			ask(t, f, p, "k")
			time.Sleep(10 * time.Millisecond)
		}
		used := charged(t, behind.Store, p, "k")
		behind.down.Store(true)
		owing := one(p, "k", 0)
		owing.Want.Overdrawn, owing.Want.Debt = 70, 5
		for range 10 {
			if g := within(t, f, time.Second, owing)[0]; g.Status != lease.OK || g.Granted != 1 || !g.StillOwed {
				t.Fatalf("while the store fails: %+v, want a unit and the debt still owed", g)
			}
			time.Sleep(20 * time.Millisecond)
		}
		alone := engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Overdrawn: 70, Debt: 5}}
		if g := within(t, f, time.Second, alone)[0]; g.Status != lease.Unavailable {
			t.Errorf("the debt alone: %+v, want unavailable", g)
		}
		behind.down.Store(false)
		time.Sleep(time.Second)
		for range 3 {
			if g := within(t, f, time.Second, owing)[0]; g.Granted != 1 || g.StillOwed {
				t.Errorf("afterwards: %+v, want a unit and nothing owed", g)
			}
		}
		time.Sleep(time.Second)
		if got := charged(t, behind.Store, p, "k") - used; got < 70 || got > 70+200 {
			t.Errorf("%d charged since, want the debt of 70 once and a lease or two", got)
		}
	})
}

// What is rejected from memory is charged with its cost, and it is reported to the store also
// when nobody asks any more: other replicas find a bucket as far below zero as it is.
func TestWhatIsRejectedFromMemoryIsChargedWithItsCost(t *testing.T) {
	for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
		onSite(t, 1, func(t *testing.T, s *site) {
			p := ruled(t, "hour", limit.Spec{Count: 100, Period: limit.Hour, ChargeRejected: true}, c)
			a := &client{t: t, store: s.caches[0], policy: p}
			single(a, 100)
			single(a, 1)    // rejected by the store
			synctest.Wait() // until what the cache asks for behind the answer has been counted
			before, denied := s.asks("hour"), s.caches[0].Stats().Denied
			single(a, 7)
			single(a, 5)
			if asks, n := s.asks("hour"), s.caches[0].Stats().Denied-denied; asks != before || n != 2 {
				t.Fatalf("%d asks for two requests of which a denial in memory rejects %d", asks-before, n)
			}
			time.Sleep(5 * time.Second)
			// 113 are charged; what is full of 100 in an hour after that has paid for 113
			// less the five seconds.
			g := (&client{t: t, store: s.base}).acquire(engine.Ask{Policy: p, Key: []byte("hot")})[0]
			if want := lease.Millis(113 * 36_000); g.Reset > want-5000 || g.Reset < want-6000 {
				t.Errorf("the bucket is full in %d ms, want a little less than %d", g.Reset, want)
			}
		})
	}
}

// What was rejected from memory and is charged counts for a request that brings a larger limit at once.
func TestBroughtLimitCountsWhatIsRejectedFromMemory(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		p := ruled(t, "hour", limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour, ChargeRejected: true}, lease.Leased)
		a := &client{t: t, store: s.caches[0], policy: p}
		for _, units := range []int64{100, 1, 7, 5} {
			single(a, units)
			synctest.Wait()
		}
		by := bringing(t, p, 200)
		if g := a.acquire(a.ask(by, 0, 1, 1))[0]; g.Granted != 1 || g.Remaining != 200-113-1 {
			t.Errorf("with 113 charged: %+v", g)
		}
	})
}

// A key that is evicted when its window is over leaves the next window nothing to pay for.
func TestEvictedKeyChargesNoNextWindow(t *testing.T) {
	onSmallSite(t, 1, 1, func(t *testing.T, s *site) {
		a := &client{t: t, store: s.caches[0]}
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Second, ChargeRejected: true}, lease.Leased)
		time.Sleep(970 * time.Millisecond)
		for _, units := range []int64{10, 1, 7} {
			a.acquire(a.ask(p, 0, units, units))
		}
		if n := charged(t, s.base, p, "hot"); n != 10 {
			t.Fatalf("%d charged before the window ends", n)
		}
		time.Sleep(40 * time.Millisecond)
		ask(t, a.store, p, "other")
		time.Sleep(100 * time.Millisecond)
		if n := charged(t, s.base, p, "hot"); n != 0 {
			t.Errorf("%d charged in the next window", n)
		}
	})
}

// What holders give back at most goes to the store one after the other. Together it would be a lie of the replica, and the
// units of all of them would be lost with it.
func TestGiveBackStaysCredible(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		c := &client{t: t, store: f, policy: policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Hour}, lease.Leased)}
		most := c.ask(c.policy, 0, 0, 0)
		most.Want.Unused, most.Want.Lease = 2000, 7 // of a lease that another replica has cut
		c.acquire(most, most)
		c.acquire(most, c.ask(c.policy, 0, 5, 100))
		time.Sleep(time.Second)
		for _, a := range behind.asks("r") {
			if a.Policy.Terms.Lies(a.Want.Unused) {
				t.Errorf("the cache gives back %d units of a limit of %d", a.Want.Unused, a.Policy.Terms.Capacity)
			}
		}
	})
}
