package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func BenchmarkDecisionTake(b *testing.B) {
	terms := lease.NewTerms(fatal.Get(limit.New(perMinute))(b), lease.Leased, 0, 0, 0)
	s := holder.State{Leases: [2]holder.Lease{{Units: 1 << 40, Expiry: 1 << 40, Lease: 7}}, Asked: 1, Size: 1, WantLog2: 10}
	b.ReportAllocs()
	for i := range b.N {
		if s.Take(&terms, lease.Millis(1000+i>>16), 1).Verdict != holder.Admit {
			b.Fatal("not admitted")
		}
	}
}

func BenchmarkDecisionAcquire(b *testing.B) {
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 1 << 30, Period: limit.Second}))(b)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	var c granter.Counter
	b.ReportAllocs()
	for i := range b.N {
		if c.Acquire(l, &terms, window+limit.Micros(i), lease.Want{Need: 1, Waiting: 1, Want: 1, Fresh: true}).Granted == 0 {
			b.Fatal("denied")
		}
	}
}

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
