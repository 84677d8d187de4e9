package lease

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// What a holder refuses where that is charged: its own units are the first that it uses
// up, and the rest is reported to the tier above, once, and not after its window.
func TestRefusedUnitsAreCharged(t *testing.T) {
	spec := perMinute
	spec.ChargeDenied = true
	terms := NewTerms(newLimit(t, spec), Leased, 0, 0, 0)
	s := Account{Asked: 500, Left: 4, DeniedNeed: 5, NextAsk: 1200, Reset: 9000}
	s.Lots[0] = Lot{Units: 2, Expiry: 9000, Lease: 1}
	s.Lots[1] = Lot{Units: 1, From: 9001, Expiry: 19000, Lease: 2}
	if d := s.Take(&terms, 1000, 8); d.Verdict != Refuse || s.Available(1000) != 0 || s.Left != 0 || s.DeniedNeed != 1 || s.Lots[1].Units != 1 {
		t.Fatalf("8 refused of 2 on lease and 4 above: %+v, %+v", d, s)
	}
	if d := s.Take(&terms, 1000, 1); d.Verdict != Refuse {
		t.Fatalf("1 after that: %+v", d)
	}
	late := s
	if w, some := s.Report(&terms, 1100); !some || w.Denied != 7 {
		t.Errorf("reports %+v, want the 8 and 1 less the 2 that were on lease", w)
	}
	if w, some := s.Report(&terms, 1101); some || w.Denied != 0 {
		t.Errorf("reports again: %+v", w)
	}
	if w := late.Ask(&terms, 9000, 1, 1, NoAsk); w.Denied != 0 {
		t.Errorf("reports %d to the next window", w.Denied)
	}
	if !late.Idle(&terms, 9300) && late.Denied > 0 {
		t.Errorf("is kept for what was refused in a window that is over: %+v", late)
	}
}

// A need that the tier above denied, and charged, was more than it and the holder had.
func TestDeniedNeedUsesUpWhatIsOnLease(t *testing.T) {
	for _, charged := range []bool{false, true} {
		spec := perMinute
		spec.ChargeDenied = charged
		l := newLimit(t, spec)
		terms := NewTerms(l, Leased, 0, 0, 0)
		s := Account{}
		s.Lots = [2]Lot{{Units: 2, Expiry: 9000, Lease: 1}, {Units: 3, Expiry: 9000, Lease: 2}} // the larger is offered
		w := s.Ask(&terms, 1000, 8, 8, NoAsk)
		s.Apply(&terms, 1004, 1000, w, Grant{Status: Denied, AskAfter: 100, Reset: 8000}, 0, 100)
		if left := s.Available(1004); left > 0 == charged {
			t.Errorf("charged %v: %d on lease", charged, left)
		}
	}
}

// Of a queue the tier above has charged the least need, if it denied that; the relay
// charges the others that it denies.
func TestDeniedQueueIsCharged(t *testing.T) {
	for name, c := range map[string]struct {
		count  int64 // left above
		denied int64 // reported above with the next want
	}{"all": {0, 7 + 5}, "all but the least": {3, 7 + 5}, "none": {15, 0}} {
		spec := limit.Spec{Algorithm: limit.FixedWindow, Count: 15, Period: limit.Hour, ChargeDenied: true}
		l := newLimit(t, spec)
		terms := NewTerms(l, Leased, 0, 0, 0)
		var above Counter
		above.State = l.Charge(above.State, limit.Second, 15-c.count)
		var n Relay
		queue := []Want{{Need: 7, Waiting: 7, Want: 7}, {Need: 3, Waiting: 3, Want: 3}, {Need: 5, Waiting: 5, Want: 5}}
		w := n.Ask(&terms, 1000, queue, NoAsk)
		grants := make([]Grant, len(queue))
		n.Apply(&terms, 1004, 1000, w, above.Acquire(l, &terms, limit.Second, w), 100, queue, grants)
		if n.Account.Denied != c.denied {
			t.Errorf("%s: %d to be charged, want %d; %+v", name, n.Account.Denied, c.denied, grants)
		}
	}
}
