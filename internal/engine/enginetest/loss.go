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

// fullTable: where there is no room, new keys are unavailable and old ones are
// counted on; what is as good as new makes room.
func fullTable(t *testing.T, s Subject) {
	const keys = 200
	clk, store := s.tight(t, keys)
	p := policyOf(t, fixed(2, limit.Minute), exact)
	counted, rejected := []string{}, 0
	for i := range 4 * keys {
		key := fmt.Sprint("key", i)
		switch g := acquire(t, store, p, key, one(1)); g.Status {
		case lease.OK:
			counted = append(counted, key)
		case lease.Unavailable:
			rejected++
		default:
			t.Fatalf("key %d: %+v", i, g)
		}
	}
	if len(counted) < keys*9/10 || rejected == 0 {
		t.Fatalf("%d keys were counted and %d rejected, want nearly %d and the rest", len(counted), rejected, keys)
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
	rejected(t, state(t, store, slot, 2, 1, 0, 1), "after the flood the slot in use is free")
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
