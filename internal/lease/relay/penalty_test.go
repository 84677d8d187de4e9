package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

// What a holder refuses where that is charged: its own units are the first that it uses
// up, and the rest is reported to the tier above, once, and not after its window.
func TestRefusedUnitsAreCharged(t *testing.T) {
	spec := perMinute
	spec.ChargeDenied = true
	terms := lease.NewTerms(newLimit(t, spec), lease.Leased, 0, 0, 0)
	s := holder.State{Asked: 500, Left: 4, Phase: holder.PhaseDenied, Least: 5, Ends: 1200, Reset: 9000}
	s.Leases[0] = holder.Lease{Units: 2, Expiry: 9000, Lease: 1}
	s.Leases[1] = holder.Lease{Units: 1, From: 9001, Expiry: 19000, Lease: 2}
	if d := s.Take(&terms, 1000, 8); d.Verdict != holder.Refuse || s.Available(1000) != 0 || s.Left != 0 || s.Least != 1 || s.Leases[1].Units != 1 {
		t.Fatalf("8 refused of 2 on lease and 4 above: %+v, %+v", d, s)
	}
	if d := s.Take(&terms, 1000, 1); d.Verdict != holder.Refuse {
		t.Fatalf("1 after that: %+v", d)
	}
	late := s
	if w, some := s.Report(&terms, 1100); !some || w.Denied != 7 {
		t.Errorf("reports %+v, want the 8 and 1 less the 2 that were on lease", w)
	}
	if w, some := s.Report(&terms, 1101); some || w.Denied != 0 {
		t.Errorf("reports again: %+v", w)
	}
	if w := late.Ask(&terms, 9000, 1, 1, holder.NoAsk); w.Denied != 0 {
		t.Errorf("reports %d to the next window", w.Denied)
	}
	if !late.Idle(&terms, 9300) && late.Denied > 0 {
		t.Errorf("is kept for what was refused in a window that is over: %+v", late)
	}
}

// A need that the tier above denied, and charged, was more than it and the holder had.
func TestLeastUsesUpWhatIsOnLease(t *testing.T) {
	for _, charged := range []bool{false, true} {
		spec := perMinute
		spec.ChargeDenied = charged
		l := newLimit(t, spec)
		terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
		s := holder.State{}
		s.Leases = [2]holder.Lease{{Units: 2, Expiry: 9000, Lease: 1}, {Units: 3, Expiry: 9000, Lease: 2}} // the larger is offered
		w := s.Ask(&terms, 1000, 8, 8, holder.NoAsk)
		s.Apply(&terms, 1004, 1000, w, lease.Grant{Status: lease.Denied, AskAfter: 100, Reset: 8000}, 0, 100)
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
		terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
		var above granter.Counter
		above.State = l.Charge(above.State, limit.Second, 15-c.count)
		var n Relay
		queue := []lease.Want{{Need: 7, Waiting: 7, Want: 7}, {Need: 3, Waiting: 3, Want: 3}, {Need: 5, Waiting: 5, Want: 5}}
		w := n.Ask(&terms, 1000, queue, holder.NoAsk)
		grants := make([]lease.Grant, len(queue))
		n.Apply(&terms, 1004, 1000, w, above.Acquire(l, &terms, limit.Second, w), 100, queue, grants)
		if n.Holder.Denied != c.denied {
			t.Errorf("%s: %d to be charged, want %d; %+v", name, n.Holder.Denied, c.denied, grants)
		}
	}
}

// Refused from memory is refused: by the holder, by a relay, by a relay's children, or
// as an exact rule does it. A peek, a child that reports no denials, and
// a spent share of the holder's own refuse nobody.
func TestRefusalsFromMemory(t *testing.T) {
	spent := holder.State{Phase: holder.PhaseDenied, Ends: 2000, Least: 1, Reset: 9000}
	acquire := func(w lease.Want) func(*lease.Terms, *holder.State) {
		return func(terms *lease.Terms, s *holder.State) {
			n := Relay{Holder: *s}
			n.Acquire(terms, 1000, w)
			*s = n.Holder
		}
	}
	take := func(terms *lease.Terms, s *holder.State) { s.Take(terms, 1000, 1) }
	for name, c := range map[string]struct {
		consistency lease.Consistency
		do          func(*lease.Terms, *holder.State)
		refused     bool
		counted     int64 // units, as refused since Asked
	}{
		"account":           {lease.Leased, take, true, 1},
		"exact account":     {lease.Exact, take, true, 1},
		"relay":             {lease.Leased, acquire(lease.Want{Need: 1, Waiting: 3, Want: 3}), true, 3},
		"exact relay":       {lease.Exact, acquire(lease.Want{Need: 1, Waiting: 1, Want: 1}), true, 1},
		"top-up of a relay": {lease.Leased, acquire(lease.Want{Want: 1}), false, 0},
		"question":          {lease.Leased, acquire(lease.Want{}), false, 0},
		"children":          {lease.Leased, acquire(lease.Want{Denied: 3}), true, 3},
		"local share": {lease.Leased, func(terms *lease.Terms, s *holder.State) {
			s.Least = 0
			s.Fail(terms, 1000, lease.Failure{By: lease.FailureLocal, Share: 1, Ends: 9000}, 2)
		}, false, 2},
	} {
		terms := lease.NewTerms(newLimit(t, perMinute), c.consistency, 0, 0, 0)
		s := spent
		c.do(&terms, &s)
		if s.Refused != c.refused || s.Denied != c.counted {
			t.Errorf("%s: refused %v, %d counted", name, s.Refused, s.Denied)
		}
	}
}
