package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// remembering: a store that lost what it had begins anew, but for what holders of the life
// before remember: that much is left at most, of the keys that they name and of no others.
func remembering(t *testing.T, s Subject) {
	const former = 77
	everyAlgorithm(t, 10, limit.Minute, func(t *testing.T, spec limit.Spec) {
		clk, store := s.empty(t)
		p, late := policyOf(t, spec, exact), named(t, "late", 0, spec, exact)
		late.Since = clk.now() + 1
		toEnd := lease.Millis((limit.Minute - clk.now()%limit.Minute) / limit.Millisecond) // of the window
		remember := func(p *engine.Policy, key string, holder uint64, left int64) {
			w := lease.Want{Left: left, Reset: toEnd}
			switch spec.Algorithm {
			case limit.TokenBucket: // what is left follows from it
				w.Reset = lease.Millis(10-left) * 6000
			case limit.SlidingWindow: // of what was charged in the running window
				w.Reset += lease.Millis(limit.Minute / limit.Millisecond)
			}
			acquireAll(t, store, engine.Ask{Policy: p, Key: []byte(key), Former: holder, Want: w})
		}
		remember(p, "remembered", former, 4)
		leaves(t, store, p, "remembered", 4, "remembered")
		leaves(t, store, p, "never used", 10, "never used")
		remember(p, "twice", former, 8)
		remember(p, "twice", former, 3) // what it was answered in this life
		leaves(t, store, p, "twice", 8, "twice")
		remember(p, "by two", former, 8)
		remember(p, "by two", former+1, 3)
		remember(p, "by two", former+2, 5)
		leaves(t, store, p, "by two", 3, "by two")
		remember(p, "by somebody new", 0, 3)
		leaves(t, store, p, "by somebody new", 10, "by somebody new")
		remember(late, "of a rule that came later", former, 3)
		leaves(t, store, late, "of a rule that came later", 10, "of a rule that came later")
		acquireAll(t, store, engine.Ask{Policy: p, Key: []byte("new to it"), Former: former, Want: one(1)})
		remember(p, "new to it", former, 3)
		leaves(t, store, p, "new to it", 9, "new to it")
		for i := range uint64(40) { // a crowd of liars
			remember(p, "of liars", i+1, 0)
		}
		leaves(t, store, p, "of liars", 0, "of liars")
		clk.advance(2*limit.Minute + limit.Second)
		for _, key := range []string{"remembered", "of liars"} {
			leaves(t, store, p, key, 10, "%s", key)
		}
		remember(p, "too late", former, 3)
		leaves(t, store, p, "too late", 10, "too late")
	})
	t.Run("give-back", func(t *testing.T) {
		clk, store, p := s.begin(t, fixed(10, limit.Hour), exact)
		lost := p.Limit.PeriodID(clk.now() - clk.now()%limit.Hour)
		acquireAll(t, store, engine.Ask{Policy: p, Key: []byte("k"), Former: former,
			Want: lease.Want{Left: 2, Reset: lease.Millis(limit.Hour / limit.Millisecond), Unused: 4, Lease: lost}})
		leaves(t, store, p, "k", 6, "2 were left, and 4 came back of a lease of the life before")
	})
	t.Run("group", func(t *testing.T) {
		_, store := s.empty(t)
		p, q := named(t, "p", 0, fixed(10, limit.Hour), exact), named(t, "q", 0, fixed(10, limit.Hour), exact)
		w := one(1)
		spent := w
		spent.Reset = lease.Millis(limit.Hour / limit.Millisecond)
		g := acquireAll(t, store, engine.Ask{Policy: p, Key: []byte("k"), Group: 1, Former: former, Want: w},
			engine.Ask{Policy: q, Key: []byte("k"), Group: 1, Former: former, Want: spent})
		if g[0].Granted != 0 || g[0].Remaining != 10 || g[1].Status != lease.Denied {
			t.Errorf("%+v, want the second denied, and nothing charged to the first", g)
		}
	})
}

// fullTable: where there is no room, new keys are unavailable and old ones are
// counted on; what is as good as new makes room.
func fullTable(t *testing.T, s Subject) {
	const keys = 200
	clk, store := s.tight(t, keys)
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
		leaves(t, store, p, key, 1, "%s in a full table", key)
	}
	clk.advance(limit.Minute + limit.Second)
	if fits := newKeys(t, store, p, keys); fits < keys*9/10 {
		t.Errorf("a minute later %d of %d new keys found room", fits, keys)
	}
}

// newKeys asks for so many keys that were never asked for, and counts those that find room.
func newKeys(t *testing.T, store engine.Store, p *engine.Policy, keys int) (fits int) {
	for i := range keys {
		if g := acquire(t, store, p, fmt.Sprint("new", i), one(1)); g.Status == lease.OK {
			fits++
		}
	}
	return fits
}

// spentKeySurvives: no number of other keys makes a store forget what was spent,
// or what is out on lease.
func spentKeySurvives(t *testing.T, s Subject) {
	const keys = 300
	clk, store := s.tight(t, keys)
	login, page := named(t, "login", 0, fixed(5, limit.Hour), exact), named(t, "page", 0, bucket(1000, limit.Second), exact)
	slot := named(t, "slot", 0, slotted(1))
	leaves(t, store, login, "victim", 5, "at first")
	for i := range 20 * keys {
		if i%1000 == 0 { // the holder renews
			if g := state(t, store, slot, 1, uint64(i+1), min(int64(i), 1), 1-min(int64(i), 1)); g.Granted != 1 {
				t.Fatalf("the slot: %+v", g)
			}
		}
		acquire(t, store, page, fmt.Sprint("flood", i), one(1))
		clk.advance(500) // a bucket is full again after a millisecond
	}
	leaves(t, store, login, "victim", 0, "after a flood of %d keys", 20*keys)
	refused(t, state(t, store, slot, 2, 1, 0, 1), "after the flood the slot in use is free")
}

// reportsTakeNoRoom: a report on a counter that was never asked for makes no counter,
// so that the reports of an old flood do not fill the table.
func reportsTakeNoRoom(t *testing.T, s Subject) {
	const keys = 200
	_, store := s.tight(t, keys)
	p := policyOf(t, fixed(2, limit.Minute), exact)
	for i := range 10 * keys {
		g := acquire(t, store, p, fmt.Sprint("old", i), lease.Want{Unused: 1, Lease: 7, Denied: 3})
		if g.Status != lease.OK || g.Remaining > 2 {
			t.Fatalf("report %d: %+v", i, g)
		}
	}
	if fits := newKeys(t, store, p, keys); fits < keys*9/10 {
		t.Errorf("%d of %d new keys found room after reports on other keys", fits, keys)
	}
}

// deadline: a call returns when its time is over, whatever is missing.
func deadline(t *testing.T, s Subject) {
	_, store, p := s.begin(t, fixed(5, limit.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		grants := make([]lease.Grant, 1)
		store.Acquire(ctx, []engine.Ask{{Policy: p, Key: []byte("k"), Want: one(1)}}, grants)
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
