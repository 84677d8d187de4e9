package leasecache_test

import (
	"testing"
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
		ask := func(w lease.Want) lease.Grant {
			grants := make([]lease.Grant, 1)
			f.Acquire(t.Context(), []engine.Ask{{Policy: p, Key: []byte("k"), Want: w}}, grants)
			return grants[0]
		}
		for range 100 { // a lease of some size
			ask(lease.Want{Need: 1, Waiting: 1, Want: 1})
			time.Sleep(10 * time.Millisecond)
		}
		used := charged(t, behind.Store, p, "k")
		behind.down.Store(true)
		owing := lease.Want{Need: 1, Waiting: 1, Want: 1, Overdrawn: 70, Debt: 5}
		for range 10 {
			if g := ask(owing); g.Status != lease.OK || g.Granted != 1 || !g.StillOwed {
				t.Fatalf("while the store fails: %+v, want a unit and the debt still owed", g)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if g := ask(lease.Want{Overdrawn: 70, Debt: 5}); g.Status != lease.Unavailable {
			t.Errorf("the debt alone: %+v, want unavailable", g)
		}
		behind.down.Store(false)
		time.Sleep(time.Second)
		for range 3 {
			if g := ask(owing); g.Granted != 1 || g.StillOwed {
				t.Errorf("afterwards: %+v, want a unit and nothing owed", g)
			}
		}
		time.Sleep(time.Second)
		if got := charged(t, behind.Store, p, "k") - used; got < 70 || got > 70+200 {
			t.Errorf("%d charged since, want the debt of 70 once and a lease or two", got)
		}
	})
}
