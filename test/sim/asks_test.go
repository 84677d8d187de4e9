package sim

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func newRule(t testing.TB, name string, s limit.Spec, c lease.Consistency) *Rule {
	t.Helper()
	l := fatal.Get(limit.New(s))(t)
	return &Rule{Name: name, Spec: s, Consistency: c, Limit: l}
}

// TestMain collects garbage less often: runs leave much of it, and little that lives.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestAsksAndWaits: while a limit is oversubscribed, PoPs ask rarely, and most requests find a lease. The bounds are those of a
// model of the rules for asks and grants, and a quarter more.
func TestAsksAndWaits(t *testing.T) {
	for _, c := range []struct {
		spec         limit.Spec
		pops         int
		offered      float64 // requests a second
		waited, asks float64 // share of the requests; a second and PoP
	}{
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Second}, 2, 30, 0.36, 11.3},
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 500, Period: limit.Second}, 1, 1500, 0.08, 30},
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 500, Period: limit.Minute}, 2, 25, 0.16, 5.7},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 10, Period: limit.Second}, 2, 30, 0.17, 8.5},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second, Burst: 75}, 1, 1500, 0.05, 13.2},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Minute}, 2, 25, 0.17, 6.8},
		{limit.Spec{Algorithm: limit.SlidingWindow, Count: 10, Period: limit.Second}, 2, 30, 0.52, 14.7},
		{limit.Spec{Algorithm: limit.SlidingWindow, Count: 500, Period: limit.Minute}, 100, 25, 1, 0.8},
	} {
		d := 30 * limit.Second
		if c.spec.Period == limit.Minute {
			d = 4 * limit.Minute
		}
		r := newRule(t, "r", c.spec, lease.Leased)
		fatal.If(t, Play(Config{Seed: 1, PoPs: c.pops, Net: Net{Delay: 2 * limit.Millisecond}}, func(w *World) error {
			for i := range c.pops {
				w.Offer(i+1, Load{Rate: c.offered / float64(c.pops), Parts: Key(r, "k", 1)}, d)
			}
			err := w.Run(d)
			n := w.Totals(r, "k")
			waited, asks := float64(n.Waited)/float64(n.Requests), float64(n.Asks)/seconds(d)/float64(c.pops)
			if float64(n.Admitted) < 0.86*float64(n.Exact) || waited > c.waited || asks > c.asks {
				t.Errorf("%+v, %d PoPs: %d of %d admitted, %.3f waited, %.1f asks", c.spec, c.pops, n.Admitted, n.Exact, waited, asks)
			}
			return err
		}, r))
	}
}
