package table

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// begin gives the worker units of a key until then.
func begin(t *testing.T, s *Subleases, k Key, units int64, until lease.Millis) *Sublease {
	t.Helper()
	e := s.At(k)
	if e == nil {
		t.Fatal("the key has no place")
	}
	s.Begin(e, &Entry{Rule: k.Rule, Key: k.Text, State: holder.State{Left: 5, Leases: [2]holder.Lease{{Units: 4, Expiry: 1 << 40}}}}, holder.Part{Units: units, Lease: 7, Expiry: until + 100}, 0, until)
	if e.Left != 9 {
		t.Errorf("%d units are left beside these, want 9", e.Left)
	}
	return e
}

func TestSublease(t *testing.T) {
	var s Subleases
	ann, other := Key{Hash: 5, Rule: 1, Text: []byte("ann")}, Key{Hash: 5 + 1<<subleasesLog2, Rule: 2, Text: []byte("bob")}
	e := begin(t, &s, ann, 3, 100)
	for _, c := range []struct {
		now  lease.Millis
		cost int64
		ok   bool
	}{{0, 2, true}, {99, 2, false}, {99, 1, true}, {99, 1, false}} {
		if e.Spend(c.now, c.cost) != c.ok {
			t.Errorf("at %d: %d units are taken of %d: %v", c.now, c.cost, e.Units, !c.ok)
		}
	}
	if e = begin(t, &s, ann, 3, 100); e.Spend(100, 1) {
		t.Error("units are taken that should go back")
	}
	if s.At(other) != nil {
		t.Error("a key takes a place where another one has units")
	}
	var back []int64
	collect := func(e *Sublease) { back = append(back, e.Units); e.Part = holder.Part{} }
	s.Due(99, collect)
	if len(back) != 0 || s.Of(ann).Units != 3 {
		t.Errorf("%v units go back early, the worker has %+v", back, s.Of(ann))
	}
	s.Due(100, collect)
	if len(back) != 1 || back[0] != 3 || s.Of(ann).Units != 0 {
		t.Errorf("%v units go back, want 3 once; the worker has %+v", back, s.Of(ann))
	}
	if e = begin(t, &s, other, 9, 200); string(e.Key.Text) != "bob" || e.Key.Rule != 2 || s.Of(ann).Units != 0 {
		t.Errorf("the place is free, and has %+v", e)
	}
}

// Only a key with several requests within one interval is taken ahead.
func TestOften(t *testing.T) {
	var s Subleases
	e := s.At(Key{Hash: 1})
	for now := lease.Millis(1000); now < 5000; now += 50 {
		if e.Often(now, 100) {
			t.Fatalf("two requests per interval are often at %d", now)
		}
	}
	for i := range 2 * oftenTakes {
		if got := e.Often(9000, 100); got != (i >= oftenTakes-1) {
			t.Errorf("request %d within one millisecond: often %v", i+1, got)
		}
	}
	e.Part, e.Until = holder.Part{Units: 2}, 9200 // requests that are admitted by them count, too
	if !e.Often(9100, 100) || !e.Spend(9100, 2) || e.takes != 6 || !e.Often(9200, 100) || e.takes != 4 {
		t.Errorf("a key that was hot in the last interval has %d requests in this one", e.takes)
	}
	if e.Often(9400, 100) {
		t.Error("a key is hot after a rest of two intervals")
	}
}
