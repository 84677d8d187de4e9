package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// A relay that is a trip away takes no more of a small limit than its few requests need: the rest is for
// other holders.
func TestSmallLimitIsNotHoarded(t *testing.T) {
	for _, trip := range []lease.Millis{5, 12, 50} {
		for _, far := range []bool{false, true} {
			l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: 10 * limit.Second}))(t)
			terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
			if far {
				terms = terms.ForAggregator()
			}
			var c granter.Counter
			now := lease.Millis(1_000_001)
			request := func(r *Relay) bool {
				now += 400
				if v := r.Holder.Take(&terms, now, 1).Verdict; v != holder.Wait {
					return v == holder.Admit
				}
				queue, grants := []lease.Want{{Need: 1, Waiting: 1, Want: 1}}, make([]lease.Grant, 1)
				w, sent := r.Ask(&terms, now, queue, holder.TopUp), now
				g := c.Acquire(l, &terms, limit.Micros(now+trip/2)*limit.Millisecond, w)
				now += trip
				r.Apply(&terms, now, sent, w, g, 100, queue, grants)
				return grants[0].Granted > 0
			}
			var a, b Relay
			for _, r := range []*Relay{&a, &a, &a, &b, &b, &b} {
				if !request(r) {
					t.Errorf("far %v, a trip of %d ms: rejected at %d with 10 in ten seconds; %+v and %+v", far, trip, now-1_000_001, a, b)
				}
			}
		}
	}
}
