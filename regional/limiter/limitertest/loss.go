package limitertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/limiter"
)

// learning: a store that is told of a life before takes unknown keys for spent
// when it started, takes back what holders return, and is as new a period later.
func learning(t *testing.T, s Subject) {
	everyAlgorithm(t, 10, limit.Minute, func(t *testing.T, spec limit.Spec) {
		clk := newClock()
		store := s.New(t, clk.options())
		p, late := policyOf(t, spec, exact), named(t, "late", 0, spec, exact)
		late.Since = clk.now() + 1
		known := drain(t, store, p, "known")
		store.Learn()
		store.Learn()
		if got := drain(t, store, p, "unknown"); known != 10 || got != 0 {
			t.Errorf("a key counted before learning had %d, want 10; an unknown one %d, want 0", known, got)
		}
		if got := drain(t, store, late, "unknown"); got != 10 {
			t.Errorf("a rule that came after the start had %d, want 10: it has no history to lose", got)
		}
		clk.advance(2*limit.Minute + 1)
		if got := drain(t, store, p, "unknown"); got != 10 {
			t.Errorf("two periods later: %d, want 10", got)
		}
		if got := drain(t, store, p, "seen late"); got != 10 {
			t.Errorf("a key first asked for two periods later: %d, want 10", got)
		}
	})
	t.Run("give-back", func(t *testing.T) {
		clk := newClock()
		store := s.New(t, clk.options())
		store.Learn()
		p := policyOf(t, fixed(10, limit.Hour), exact)
		lost := p.Limit.PeriodID(clk.now() - clk.now()%limit.Hour)
		acquire(t, store, p, "k", lease.Want{Unused: 4, Lease: lost})
		clk.advance(2 * limit.Second)
		if got := drain(t, store, p, "k"); got != 4 && !s.Cached {
			t.Errorf("after 4 came back of a lease of the life before: %d, want 4", got)
		}
	})
	t.Run("slots", func(t *testing.T) {
		clk := newClock()
		store := s.New(t, clk.options())
		store.Learn()
		p := policyOf(t, slotted(3))
		if g := state(t, store, p, 1, 1, 0, 1); g.Status != lease.Denied {
			t.Errorf("a slot that others may use: %+v", g)
		}
		if g := state(t, store, p, 2, 1, 2, 0); g.Granted != 2 {
			t.Errorf("slots that are in use: %+v, want 2", g)
		}
		clk.advance(9 * limit.Second)
		state(t, store, p, 2, 2, 2, 0)
		clk.advance(2 * limit.Second)
		if g := state(t, store, p, 1, 2, 0, 1); g.Granted != 1 {
			t.Errorf("after the time in which all holders renew: %+v, want 1", g)
		}
	})
}

// fullTable: where there is no room, new keys are unavailable and old ones are
// counted on; what is as good as new makes room.
func fullTable(t *testing.T, s Subject) {
	const keys = 200
	clk := newClock()
	store := s.New(t, Options{Now: clk.now, Steady: clk.steady, MaxKeys: keys, Tight: true})
	p := policyOf(t, fixed(2, limit.Minute), exact)
	counted, refused := []string{}, 0
	for i := range 4 * keys {
		key := fmt.Sprint("key", i)
		switch g := acquire(t, store, p, key, one(1)); g.Status {
		case lease.OK:
			counted = append(counted, key)
		case lease.Unavailable:
			refused++
		default:
			t.Fatalf("key %d: %+v", i, g)
		}
	}
	if len(counted) < keys*9/10 || refused == 0 {
		t.Fatalf("%d keys were counted and %d refused, want nearly %d and the rest", len(counted), refused, keys)
	}
	for _, key := range counted {
		if got := drain(t, store, p, key); got != 1 {
			t.Fatalf("%s had %d left in a full table, want 1", key, got)
		}
	}
	clk.advance(limit.Minute + limit.Second)
	fits := 0
	for i := range keys {
		if g := acquire(t, store, p, fmt.Sprint("new", i), one(1)); g.Status == lease.OK {
			fits++
		}
	}
	if fits < keys*9/10 {
		t.Errorf("a minute later %d of %d new keys found room", fits, keys)
	}
}

// spentKeySurvives: no number of other keys makes a store forget what was spent,
// or what is out on lease.
func spentKeySurvives(t *testing.T, s Subject) {
	const keys = 300
	clk := newClock()
	store := s.New(t, Options{Now: clk.now, Steady: clk.steady, MaxKeys: keys, Tight: true})
	login, page := named(t, "login", 0, fixed(5, limit.Hour), exact), named(t, "page", 0, bucket(1000, limit.Second), exact)
	slot := named(t, "slot", 0, slotted(1))
	if got := drain(t, store, login, "victim"); got != 5 {
		t.Fatalf("admitted %d of 5", got)
	}
	for i := range 20 * keys {
		if i%1000 == 0 { // the holder renews
			if g := state(t, store, slot, 1, uint64(i+1), min(int64(i), 1), 1-min(int64(i), 1)); g.Granted != 1 {
				t.Fatalf("the slot: %+v", g)
			}
		}
		acquire(t, store, page, fmt.Sprint("flood", i), one(1))
		clk.advance(500) // a bucket is full again after a millisecond
	}
	if got := drain(t, store, login, "victim"); got != 0 {
		t.Errorf("after a flood of %d keys the spent key admits %d more", 20*keys, got)
	}
	if g := state(t, store, slot, 2, 1, 0, 1); g.Status != lease.Denied {
		t.Errorf("after the flood the slot in use is free: %+v", g)
	}
}

// reportsTakeNoRoom: what only reports on a counter that nobody asked for makes
// none, so that the reports of an old flood do not fill the table.
func reportsTakeNoRoom(t *testing.T, s Subject) {
	const keys = 200
	clk := newClock()
	store := s.New(t, Options{Now: clk.now, Steady: clk.steady, MaxKeys: keys, Tight: true})
	p := policyOf(t, fixed(2, limit.Minute), exact)
	for i := range 10 * keys {
		g := acquire(t, store, p, fmt.Sprint("old", i), lease.Want{Unused: 1, Lease: 7, Denied: 3})
		if g.Status != lease.OK || g.Remaining > 2 {
			t.Fatalf("report %d: %+v", i, g)
		}
	}
	fits := 0
	for i := range keys {
		if g := acquire(t, store, p, fmt.Sprint("new", i), one(1)); g.Status == lease.OK {
			fits++
		}
	}
	if fits < keys*9/10 {
		t.Errorf("%d of %d new keys found room after reports on other keys", fits, keys)
	}
}

// deadline: a call returns when its time is over, whatever is missing.
func deadline(t *testing.T, s Subject) {
	clk := newClock()
	store := s.New(t, clk.options())
	p := policyOf(t, fixed(5, limit.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		grants := make([]lease.Grant, 1)
		store.Acquire(ctx, []limiter.Ask{{Policy: p, Key: []byte("k"), Want: one(1)}}, grants)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a call whose time is over did not return")
	}
	if got := drain(t, store, p, "k"); got > 5 {
		t.Errorf("%d of 5 after it", got)
	}
}
