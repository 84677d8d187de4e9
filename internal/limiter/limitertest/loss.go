package limitertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
)

// remembering: a store that lost what it had begins anew, but for what holders of the life
// before remember: that much is left at most, of the keys that they name and of no others.
func remembering(t *testing.T, s Subject) {
	const former = 77
	everyAlgorithm(t, 10, limit.Minute, func(t *testing.T, spec limit.Spec) {
		clk := newClock()
		store := s.New(t, clk.options())
		p, late := policyOf(t, spec, exact), named(t, "late", 0, spec, exact)
		late.Since = clk.now() + 1
		toEnd := lease.Millis((limit.Minute - clk.now()%limit.Minute) / limit.Millisecond) // of the window
		remember := func(p *limiter.Policy, key string, holder uint64, left int64) {
			w := lease.Want{Left: left, Reset: toEnd}
			switch spec.Algorithm {
			case limit.TokenBucket: // what is left follows from it
				w.Reset = lease.Millis(10-left) * 6000
			case limit.SlidingWindow: // of what was charged in the running window
				w.Reset += lease.Millis(limit.Minute / limit.Millisecond)
			}
			acquireAll(t, store, limiter.Ask{Policy: p, Key: []byte(key), Former: holder, Want: w})
		}
		leaves := func(key string, p *limiter.Policy, want int64) {
			t.Helper()
			if got := drain(t, store, p, key); got != want {
				t.Errorf("%s: %d were left, want %d", key, got, want)
			}
		}
		remember(p, "remembered", former, 4)
		leaves("remembered", p, 4)
		leaves("never used", p, 10)
		remember(p, "twice", former, 8)
		remember(p, "twice", former, 3) // what it was answered in this life
		leaves("twice", p, 8)
		remember(p, "by two", former, 8)
		remember(p, "by two", former+1, 3)
		remember(p, "by two", former+2, 5)
		leaves("by two", p, 3)
		remember(p, "by somebody new", 0, 3)
		leaves("by somebody new", p, 10)
		remember(late, "of a rule that came later", former, 3)
		leaves("of a rule that came later", late, 10)
		acquireAll(t, store, limiter.Ask{Policy: p, Key: []byte("new to it"), Former: former, Want: one(1)})
		remember(p, "new to it", former, 3)
		leaves("new to it", p, 9)
		for i := range uint64(40) { // a crowd of liars
			remember(p, "of liars", i+1, 0)
		}
		leaves("of liars", p, 0)
		clk.advance(2*limit.Minute + limit.Second)
		for _, key := range []string{"remembered", "of liars"} {
			leaves(key, p, 10)
		}
		remember(p, "too late", former, 3)
		leaves("too late", p, 10)
	})
	t.Run("give-back", func(t *testing.T) {
		clk := newClock()
		store := s.New(t, clk.options())
		p := policyOf(t, fixed(10, limit.Hour), exact)
		lost := p.Limit.PeriodID(clk.now() - clk.now()%limit.Hour)
		acquireAll(t, store, limiter.Ask{Policy: p, Key: []byte("k"), Former: former,
			Want: lease.Want{Left: 2, Reset: lease.Millis(limit.Hour / limit.Millisecond), Unused: 4, Lease: lost}})
		if got := drain(t, store, p, "k"); got != 6 {
			t.Errorf("2 were left, and 4 came back of a lease of the life before: %d, want 6", got)
		}
	})
	t.Run("group", func(t *testing.T) {
		clk := newClock()
		store := s.New(t, clk.options())
		p, q := named(t, "p", 0, fixed(10, limit.Hour), exact), named(t, "q", 0, fixed(10, limit.Hour), exact)
		w := one(1)
		spent := w
		spent.Reset = lease.Millis(limit.Hour / limit.Millisecond)
		g := acquireAll(t, store, limiter.Ask{Policy: p, Key: []byte("k"), Group: 1, Former: former, Want: w},
			limiter.Ask{Policy: q, Key: []byte("k"), Group: 1, Former: former, Want: spent})
		if g[0].Granted != 0 || g[0].Remaining != 10 || g[1].Status != lease.Denied {
			t.Errorf("%+v, want the second denied, and nothing charged to the first", g)
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
