package service_test

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

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
		if out, refused := r.post(q); out == nil || out.Grants[0].Remaining != c.left {
			t.Errorf("%+v: %+v %s", c, out, refused)
		}
	}
	if n := r.store.Stats().Keys; n != 11 {
		t.Errorf("%d counters, want those of two rules", n)
	}
}
