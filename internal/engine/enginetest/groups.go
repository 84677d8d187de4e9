package enginetest

import (
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/proc"
)

// request is the asks of one request: a unit of each policy, in group 1.
func request(key string, policies ...*engine.Policy) []engine.Ask {
	var asks []engine.Ask
	for _, p := range policies {
		asks = append(asks, engine.Ask{Policy: p, Key: []byte(key), Group: 1, Want: one(1)})
	}
	return asks
}

// groupDenied: what one rule denies costs nothing on the others.
func groupDenied(t *testing.T, s Subject) {
	clk, store := s.empty(t)
	narrow, wide := named(t, "narrow", 0, fixed(3, limit.Hour), exact), named(t, "wide", 0, fixed(100, limit.Hour), exact)
	denied := 0
	for range 20 {
		g := acquireAll(t, store, request("k", wide, narrow)...)
		switch {
		case g[1].Status == lease.Denied:
			denied++
			if g[0].Status != lease.OK || g[0].Granted != 0 {
				t.Fatalf("beside a denial: %+v, want OK and nothing granted", g[0])
			}
		case g[0].Granted != 1 || g[1].Granted != 1:
			t.Fatalf("granted in part: %+v", g)
		}
		clk.advance(200 * limit.Millisecond)
	}
	if denied != 17 {
		t.Errorf("denied %d of 20, want 17", denied)
	}
	leaves(t, store, wide, "k", 97, "the other rule")
}

// groupSettles applies what a denied group gives back and reports.
func groupSettles(t *testing.T, s Subject) {
	clk, store := s.empty(t)
	spent, wide := named(t, "spent", 0, fixed(1, limit.Hour), exact), named(t, "wide", 0, fixed(100, limit.Hour), exact)
	drain(t, store, spent, "k")
	clk.advance(2 * limit.Second)
	asks := request("k", spent, wide)
	asks[1].Want.Overdrawn = 30
	g := acquireAll(t, store, asks...)
	if g[0].Status != lease.Denied || g[1].Status != lease.OK || g[1].Granted != 0 {
		t.Fatalf("%+v, want a denial beside OK", g)
	}
	clk.advance(2 * limit.Second)
	acquire(t, store, wide, "k", lease.Want{}) // a cache reports to the store when it asks
	leaves(t, store, wide, "k", 70, "after 30 overdrawn in a denied group")
}

// groupHammer sends groups over the same keys in different orders from many
// goroutines: no deadlock, no part of a group, no unit too many.
func groupHammer(t *testing.T, s Subject) {
	clk, store := s.empty(t)
	a, b := named(t, "a", 0, fixed(300, limit.Hour), exact), named(t, "b", 0, fixed(500, limit.Hour), exact)
	var granted [2]atomic.Int64
	proc.Together(8, func(i int) {
		policies := []*engine.Policy{a, b}
		if i%2 == 1 {
			policies = []*engine.Policy{b, a}
		}
		for range 150 {
			g := acquireAll(t, store, request("k", policies...)...)
			if g[0].Granted != g[1].Granted {
				t.Errorf("granted in part: %+v", g)
			}
			granted[i%2].Add(g[0].Granted)
		}
	})
	admitted := granted[0].Load() + granted[1].Load()
	clk.advance(2 * limit.Second)
	restA, restB := drain(t, store, a, "k"), drain(t, store, b, "k")
	if admitted+restA != 300 || admitted+restB != 500 {
		t.Errorf("%d groups were granted; left are %d of 300 and %d of 500", admitted, restA, restB)
	}
}
