package granter

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestCounterNeverOverGrants sends any wants to a counter and adds up what it
// granted to each window, less what came back: never more than the limit, and no
// more comes back than was out.
func TestCounterNeverOverGrants(t *testing.T) {
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 50, Period: limit.Second}))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	rapid.Check(t, func(t *rapid.T) {
		var c Counter
		out := map[uint32]int64{} // granted to a window
		upTo := func(n int64) int64 { return rapid.Int64Range(0, max(n, 0)).Draw(t, "n") }
		now := limit.Micros(window)
		for range 60 {
			now += limit.Micros(upTo(150)) * limit.Millisecond
			w := lease.Want{Need: upTo(10), Fresh: upTo(1) == 1, Next: upTo(2) == 0}
			w.Waiting = w.Need + upTo(10)*min(w.Need, 1)
			w.Want = w.Waiting + upTo(30)
			w.Unused, w.Lease = upTo(5)*upTo(1), l.PeriodID(now-now%limit.Second)
			before := c.Look(l, &terms, now).Remaining
			c.Fit(l, &terms, now, w)
			returned := c.Look(l, &terms, now).Remaining - before
			if returned < 0 || returned > w.Unused {
				t.Fatalf("%d returned of %d", returned, w.Unused)
			}
			out[w.Lease] -= returned
			w.Unused, w.Fresh = 0, false
			g := c.Acquire(l, &terms, now, w)
			out[g.Lease] += g.Granted
			if g.Granted > 0 && (g.Granted < w.Need || g.Granted > w.Want) {
				t.Fatalf("granted %d to %+v", g.Granted, w)
			}
			if out[g.Lease] > 50 && g.Granted > 0 {
				t.Fatalf("%d out of 50", out[g.Lease])
			}
			if g.Status == lease.Denied && (g.AskAfter < 1 || g.AskAfter > 1000) {
				t.Fatalf("ask after %d", g.AskAfter)
			}
			if c.Leased < 0 || c.Leased > 100 {
				t.Fatalf("%+v", c)
			}
		}
	})
}
