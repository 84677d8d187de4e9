package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

// A sliding log counts a grant of no more than what waits from the moment of the grant.
// What fits no waiter goes back: spent later, it would make more than the limit in the
// window that begins after the grant.
func TestLogKeepsNoSpareOfAGrantForWaiters(t *testing.T) {
	l := newLimit(t, limit.Spec{Algorithm: limit.SlidingLog, Count: 100, Period: 5 * limit.Second})
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	for _, c := range []struct {
		waiting, granted, spare, kept int64
	}{
		{54, 35, 11, 0},
		{35, 35, 11, 0},
		{34, 35, 11, 11}, // more than what waits is counted from the lease's end
	} {
		var a holder.State
		w := lease.Want{Need: 3, Waiting: c.waiting, Want: 60}
		back := a.Apply(&terms, 1000, 990, w, lease.Grant{Status: lease.OK, Granted: c.granted, TTL: 100, Lease: 7}, c.spare, 100)
		if a.Available(1000) != c.kept || back.Units != c.spare-c.kept {
			t.Errorf("%+v: kept %d, gave back %d", c, a.Available(1000), back.Units)
		}
	}
}

// A relay hands such a grant out to no more than what waits below it.
func TestRelayGivesNobodyMoreOfSuchAGrantThanWaits(t *testing.T) {
	n := newTier(t, limit.Spec{Algorithm: limit.SlidingLog, Count: 1000, Period: 5 * limit.Second}, lease.Leased)
	queue := []lease.Want{{Need: 3, Waiting: 10, Want: 40}, {Need: 50, Waiting: 50, Want: 50}}
	w := n.Ask(&n.terms, 1000, queue, holder.NoAsk)
	grants := make([]lease.Grant, 2)
	back := n.Apply(&n.terms, 1004, 1000, w, lease.Grant{Status: lease.OK, Granted: w.Waiting - 10, TTL: 100, Lease: 7, Remaining: 0}, 100, queue, grants)
	if grants[0].Granted > 10 || grants[0].Granted+grants[1].Granted+back.Units != w.Waiting-10 || n.Holder.Available(1004) != 0 {
		t.Errorf("granted %d and %d, gave back %d, kept %d of %d", grants[0].Granted, grants[1].Granted, back.Units, n.Holder.Available(1004), w.Waiting-10)
	}
}
