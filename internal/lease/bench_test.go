package lease

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// steady is an account with units and nothing to ask for.
func steady() Account {
	return Account{Lots: [2]Lot{{Units: 1 << 40, Expiry: 1 << 40, Lease: 7}}, Asked: 1, Size: 1, WantLog2: 10}
}

func BenchmarkDecisionTake(b *testing.B) {
	terms := NewTerms(newLimit(b, perMinute), Leased, 0, 0, 0)
	s := steady()
	b.ReportAllocs()
	for i := range b.N {
		if s.Take(&terms, Millis(1000+i>>16), 1).Verdict != Admit {
			b.Fatal("not admitted")
		}
	}
}

func BenchmarkDecisionRefuse(b *testing.B) {
	terms := NewTerms(newLimit(b, perMinute), Leased, 0, 0, 0)
	s := Account{DeniedNeed: 1, NextAsk: 1 << 40}
	b.ReportAllocs()
	for i := range b.N {
		if s.Take(&terms, Millis(1000+i>>16), 1).Verdict != Refuse {
			b.Fatal("not refused")
		}
	}
}

func BenchmarkDecisionAcquire(b *testing.B) {
	for name, s := range map[string]limit.Spec{
		"token_bucket":   {Count: 1 << 30, Period: limit.Minute / 60},
		"fixed_window":   {Algorithm: limit.FixedWindow, Count: 1 << 30, Period: limit.Second},
		"sliding_window": {Algorithm: limit.SlidingWindow, Count: 1 << 30, Period: limit.Second},
	} {
		b.Run(name, func(b *testing.B) {
			l := newLimit(b, s)
			terms := NewTerms(l, Leased, 0, 0, 0)
			var c Counter
			w := Want{Need: 1, Waiting: 1, Want: 1, Fresh: true}
			b.ReportAllocs()
			for i := range b.N {
				if c.Acquire(l, &terms, window+limit.Micros(i), w).Granted == 0 {
					b.Fatal("denied")
				}
			}
		})
	}
}

func BenchmarkDecisionRelay(b *testing.B) {
	terms := NewTerms(newLimit(b, perMinute), Leased, 0, 0, 0)
	n := Relay{Account: steady()}
	w := Want{Need: 1, Waiting: 1, Want: 1}
	b.ReportAllocs()
	for i := range b.N {
		if _, v, _ := n.Acquire(&terms, Millis(1000+i>>16), w); v != Admit {
			b.Fatal("not admitted")
		}
	}
}

// TestDecisionsDoNotAllocate covers every call on the way of a request.
func TestDecisionsDoNotAllocate(t *testing.T) {
	l := newLimit(t, perMinute)
	terms := NewTerms(l, Leased, 0, 0, 0)
	var s Account
	var c Counter
	var n Relay
	queue, grants := make([]Want, 2), make([]Grant, 2)
	now := Millis(1000)
	allocs := testing.AllocsPerRun(1000, func() {
		now += 7
		d := s.Take(&terms, now, 1)
		s.Untake(&terms, d.Taken)
		if !s.remembered(now, 1) && !s.takeLocal(&terms, now, now+7, 1, 2) {
			s.overdraw(&terms, 1)
		}
		w := s.Ask(&terms, now, 1, 1, NoAsk)
		g := c.Acquire(l, &terms, window+limit.Micros(now)*limit.Millisecond, w)
		s.Apply(&terms, now, now, w, g, max(0, g.Granted-1), 100)
		s.Report(&terms, now)
		_, _, _ = n.Acquire(&terms, now, w)
		up := n.Ask(&terms, now, queue, TopUp)
		n.Apply(&terms, now, now, up, g, 100, queue, grants)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
