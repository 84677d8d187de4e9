package holder

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// What a holder rejects where that is charged: its own units are the first that it uses
// up, and the rest is reported to the granter, once, and not after its window.
func TestRejectedUnitsAreCharged(t *testing.T) {
	terms := lease.NewTerms(fatal.Get(limit.New(penal))(t), lease.Leased, 0, 0, 0)
	s := State{Asked: 500, Left: 4, Phase: PhaseDenied, Least: 5, Ends: 1200, Reset: 9000}
	s.Leases[0] = Lease{Units: 2, Expiry: 9000, Lease: 1}
	s.Leases[1] = Lease{Units: 1, From: 9001, Expiry: 19000, Lease: 2}
	if d := s.Take(&terms, 1000, 8); d.Verdict != Reject || s.Available(1000) != 0 || s.Left != 0 || s.Least != 1 || s.Leases[1].Units != 1 {
		t.Fatalf("8 rejected of 2 on lease and 4 above: %+v, %+v", d, s)
	}
	if d := s.Take(&terms, 1000, 1); d.Verdict != Reject {
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
		t.Errorf("is kept for what was rejected in a window that is over: %+v", late)
	}
}
