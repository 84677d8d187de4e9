package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestDecisionsDoNotAllocate covers every call on the way of a request.
func TestDecisionsDoNotAllocate(t *testing.T) {
	l := fatal.Get(limit.New(perMinute))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	var s holder.State
	var c granter.Counter
	var n Relay
	queue, grants := make([]lease.Want, 2), make([]lease.Grant, 2)
	now := lease.Millis(1000)
	allocs := testing.AllocsPerRun(1000, func() {
		now += 7
		d := s.Take(&terms, now, 1)
		s.Refund(&terms, d.Taken)
		if !s.Fail(&terms, now, lease.Failure{By: lease.FailureLocal, Share: 1, Ends: now + 7}, 2).Admitted {
			s.Owe(&terms, 1)
		}
		w := s.Ask(&terms, now, 1, 1, holder.NoAsk)
		g := c.Acquire(l, &terms, window+limit.Micros(now)*limit.Millisecond, w)
		s.Apply(&terms, now, now, w, g, max(0, g.Granted-1), 100)
		s.Report(&terms, now)
		_, _, _ = n.Acquire(&terms, now, w)
		up := n.Ask(&terms, now, queue, holder.TopUp)
		n.Apply(&terms, now, now, up, g, 100, queue, grants)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
