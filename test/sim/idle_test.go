package sim

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestIdleKey: a key that nobody asks for any more makes no calls, once what was left of its
// leases went back.
func TestIdleKey(t *testing.T) {
	const lasts, after = 5 * limit.Second, 25 * limit.Second
	for name, spec := range map[string]limit.Spec{
		"bucket":      {Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second},
		"window":      {Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second},
		"long window": {Algorithm: limit.SlidingWindow, Count: 100_000, Period: limit.Hour},
	} {
		for _, scope := range []rule.Scope{rule.ScopeRegion, rule.ScopeGlobal} {
			t.Run(name+" "+scope.String(), func(t *testing.T) {
				r := newRule(t, "r", spec, lease.Leased)
				c := Config{
					Seed: 1, PoPs: 6, Relays: 6, Workers: 2, Net: Net{Delay: limit.Millisecond, Spread: limit.Millisecond},
				}
				if r.Scope = scope; scope == rule.ScopeGlobal {
					r.OnFailure, r.Timeout = lease.FailureDeny, 1000
					c.Regions, c.AggregatorNet = 3, Net{Delay: 50 * limit.Millisecond}
				}
				fatal.If(t, Play(c, func(w *World) error {
					for n := range w.PoPs {
						w.Offer(n+1, Load{Rate: []float64{300, 75, 25}[n%3], Parts: Key(r, "k", 1)}, lasts)
					}
					if err := w.Run(lasts + after); err != nil {
						return err
					}
					before := w.Calls
					err := w.Run(10 * limit.Second)
					if w.Calls != before {
						t.Errorf("%+v calls, %+v 10 s later", before, w.Calls)
					}
					return err
				}, r))
			})
		}
	}
}
