package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Of a queue the granter has charged the least need, if it denied that; the relay
// charges the others that it denies.
func TestDeniedQueueIsCharged(t *testing.T) {
	for name, c := range map[string]struct {
		count  int64 // left at the granter
		denied int64 // reported to the granter with the next want
	}{"all": {0, 7 + 5}, "all but the least": {3, 7 + 5}, "none": {15, 0}} {
		spec := limit.Spec{Algorithm: limit.FixedWindow, Count: 15, Period: limit.Hour, ChargeRejected: true}
		l := fatal.Get(limit.New(spec))(t)
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

// Rejected from memory is rejected: by the holder, by a relay, by a relay's children, or
// as an exact rule does it. A peek, a child that reports no denials, and
// a spent share of the holder's own reject nobody.
func TestRejectionsFromMemory(t *testing.T) {
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
		rejected    bool
		counted     int64 // units, as rejected since Asked
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
		terms := lease.NewTerms(fatal.Get(limit.New(perMinute))(t), c.consistency, 0, 0, 0)
		s := spent
		c.do(&terms, &s)
		if s.Rejected != c.rejected || s.Denied != c.counted {
			t.Errorf("%s: rejected %v, %d counted", name, s.Rejected, s.Denied)
		}
	}
}
