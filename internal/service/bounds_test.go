package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/measure"
)

// A want that is out of range is answered as unavailable by itself, with the group that it belongs to, and counted by
// what is wrong with it; the others of its call are decided. What was rejected is charged nowhere.
func TestWantsAreRejectedAlone(t *testing.T) {
	r := newRegion(t)
	bad := func(change func(*wire.Want)) []wire.Want {
		w := want("page", "k", 1)
		change(&w)
		return []wire.Want{w}
	}
	var large []wire.Want
	for range wire.MaxGroup + 1 {
		large = append(large, wire.Want{Rule: "page", Group: 3, Want: lease.Want{Want: 1}})
	}
	for n, c := range []struct {
		field string
		wants []wire.Want
	}{
		{"rule", bad(func(w *wire.Want) { w.Rule = strings.Repeat("r", 131) })},
		{"key", bad(func(w *wire.Want) { w.Key = make([]byte, 8193) })},
		{"need", bad(func(w *wire.Want) { w.Need = 2 })},
		{"waiting", bad(func(w *wire.Want) { w.Waiting = 2 })},
		{"want", bad(func(w *wire.Want) { w.Want.Want = 1 << 32 })},
		{"unused", bad(func(w *wire.Want) { w.Unused = -1 << 63 })},
		{"overdrawn", bad(func(w *wire.Want) { w.Overdrawn = -1 })},
		{"denied", bad(func(w *wire.Want) { w.Denied = 1 << 40 })},
		{"holding", bad(func(w *wire.Want) { w.Holding = 1 << 40 })},
		{"group", large},
		{"group", []wire.Want{{Rule: "all", Group: 3, Want: lease.Want{Want: 1}}, {Rule: "page", Group: 3, Want: lease.Want{Want: 1}}, {Rule: "all", Group: 3, Variant: 1, Override: rulesOf(t, rulesText).Override(1, 1), Want: lease.Want{Want: 1}}}},
		{"group", []wire.Want{{Rule: "all", Group: 3, Want: lease.Want{Want: 1}}, {Rule: "page", Group: 3, Want: lease.Want{Want: 1 << 33}}}},
	} {
		wants := append(append([]wire.Want{want("page", fmt.Sprint("before", n), 1)}, c.wants...), want("page", fmt.Sprint("after", n), 1))
		grants := r.grants(wants...)
		for i, g := range grants {
			switch whole := i == 0 || i == len(grants)-1; {
			case whole && (g.Status != lease.OK || g.Granted != 1):
				t.Errorf("%s: a want beside it got %+v", c.field, g)
			case !whole && (g.Status != lease.Unavailable && g.Status != lease.UnknownRule || g.Granted != 0):
				t.Errorf("%s: want %d got %+v", c.field, i, g)
			}
		}
		if line := `weir_wants_rejected_total{reason="` + c.field + `"} `; !strings.Contains(measure.Page(r.metrics.Handler()), line) {
			t.Errorf("no %s", line)
		}
	}
	if g := r.grants(want("page", "k", 10), want("page", "", 10), want("all", "", 100)); g[0].Granted != 10 || g[1].Granted != 10 || g[2].Granted != 100 {
		t.Errorf("what was rejected was charged: %+v", g)
	}
	measure.Has(t, r.metrics.Handler(), "weir_acquire_rejected_total 0") // no whole call was
}

// A group has so many members, and from a PoP one of each rule: a region's calls have several keys of a rule.
func TestGroupsAreBounded(t *testing.T) {
	r := newRegion(t)
	for _, c := range []struct {
		region  string
		members int
		keys    int
		granted bool
	}{{"eu", wire.MaxGroup, wire.MaxGroup, true}, {"eu", wire.MaxGroup + 1, wire.MaxGroup + 1, false}, {"eu", 2, 1, false}, {"", 2, 2, false}} {
		q := r.call()
		q.Region = c.region
		for i := range c.members {
			w := want("page", fmt.Sprint(c.region, c.members, i%c.keys), 1)
			w.Group = 1
			q.Wants = append(q.Wants, w)
		}
		out, rejected := r.post(q)
		if out == nil || (out.Grants[0].Granted == 1) != c.granted || (out.Grants[c.members-1].Granted == 1) != c.granted {
			t.Errorf("%+v: %+v %s", c, out, rejected)
		}
	}
	q := r.call()
	for range wire.MaxWants {
		q.Wants = append(q.Wants, want("page", "as many as a call may have", 0))
	}
	if out, rejected := r.post(q); out == nil {
		t.Error(rejected)
	}
}

// A holder states that it owes everything, once in each of many calls. It owes what its rule admits without a lease:
// nothing, what an optimistic holder admits ahead of the answer, or one limit. A debt of nothing makes no counter.
func TestDebtsAreBounded(t *testing.T) {
	r := newRegion(t)
	r.setRules(`{"rules": [
		{"name": "none", "key": [{"header": "x"}], "limit": "100/1h", "algorithm": "fixed_window", "on_failure": "deny"},
		{"name": "ahead", "key": [{"header": "x"}], "limit": "100/1h", "algorithm": "fixed_window", "on_failure": "deny", "consistency": "optimistic", "overdraft": 3},
		{"name": "one", "key": [{"header": "x"}], "limit": "100/1h", "algorithm": "fixed_window", "on_failure": "allow"}]}`)
	for rule, left := range map[string]int64{"none": 100, "ahead": 97, "one": 0} {
		for i := range uint64(5) {
			owes := wire.Want{Rule: rule, Key: fmt.Append(nil, "k", i), Want: lease.Want{Overdrawn: wire.MaxUnits, Debt: i + 1}}
			if g := r.grants(owes)[0]; g.Remaining != left || g.StillOwed {
				t.Errorf("%s: %+v, want %d left", rule, g, left)
			}
		}
	}
	for _, c := range []struct { // a debt is its region's, whichever holder reports it, or else its holder's
		region string
		holder []byte
		left   int64
	}{{"eu", holderA, 95}, {"eu", holderB, 95}, {"us", holderB, 90}, {"", holderA, 85}, {"", holderA, 85}, {"", holderB, 80}} {
		q := r.call(wire.Want{Rule: "one", Key: []byte("k"), Want: lease.Want{Overdrawn: 5, Debt: 7}})
		q.Region, q.Holder = c.region, c.holder
		if out, rejected := r.post(q); out == nil || out.Grants[0].Remaining != c.left {
			t.Errorf("%+v: %+v %s", c, out, rejected)
		}
	}
	if n := r.store.Stats().Keys; n != 11 {
		t.Errorf("%d counters, want those of two rules", n)
	}
}
