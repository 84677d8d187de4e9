package edge

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Of the wants of one request, the one that was denied decides: the others are
// answered OK with nothing granted, and must not be taken for the reason.
func TestDeniedMemberDecidesItsGroup(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[
		{"name":"user","key":[{"header":"x-user"}],"limit":"100/1h","algorithm":"fixed_window"},
		{"name":"all","key":[],"limit":"1/1h","algorithm":"fixed_window","consistency":"exact"}]}`)
	if !w.admit(0, "/", "ann") {
		t.Fatal("the first request was refused")
	}
	r := w.request(0, "/", "bob")
	w.settle()
	if r.Outcome != Deny || r.hits[r.denier].policy.Rule.Name != "all" {
		t.Errorf("outcome %v by %s, want it denied by all", r.Outcome, r.hits[r.denier].policy.Rule.Name)
	}
	if n := w.workers[0].rules.CountsOf("user").Decided[rulebook.Denied]; n != 0 {
		t.Errorf("rule user counts %d denials, want none", n)
	}
}

// A denial in the cache hides no units that cheaper requests could have.
func TestCachedDenialHidesNoUnits(t *testing.T) {
	w := newWorld(t, 1, userRule)
	p := &w.workers[0].rules.InForce.ByRule[0][0]
	h := &hit{policy: p, key: table.Key{Hash: 42}, cost: 5}
	e := &table.Entry{}
	e.Leases[0] = holder.Lease{Units: 3, Expiry: w.now + 1000}
	e.Phase, e.Least, e.Ends = holder.PhaseDenied, 1, w.now+500
	h.rememberDenial(w.now, e)
	if p.Denials.Refuses(42, w.now, 3) != nil {
		t.Error("3 units are there, and a request of cost 3 is refused")
	}
	if p.Denials.Refuses(42, w.now, 4) == nil {
		t.Error("a request of cost 4 is not refused")
	}
}
