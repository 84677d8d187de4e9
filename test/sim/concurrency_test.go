package sim

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// churn runs PoPs that between them want twice the slots, for streams of 205 ms on
// average, and returns the most that were in use at once and how many requests were served.
func churn(t *testing.T, c Config, count int64) (most, served int64) {
	t.Helper()
	r := newRule(t, "r", limit.Spec{Algorithm: limit.Concurrency, Count: count, LeaseTTL: 2 * limit.Second}, lease.Leased)
	r.OnFailure = lease.FailureDeny
	fatal.If(t, Play(c, func(w *World) error {
		var used int64
		for _, p := range w.pops {
			var next func()
			next = func() {
				q := &request{parts: []Part{{r, "k", 1}}}
				q.Lasts = limit.Micros(10+w.rand.IntN(400)) * limit.Millisecond
				q.begin = func() { used++; served++; most = max(most, used) }
				q.over = func() { used-- }
				p.decide(q)
				w.after(limit.Micros(w.rand.Int64N(2*int64(205*limit.Millisecond)*int64(w.PoPs)/(2*count))+1), next)
			}
			next()
		}
		return w.Run(20 * limit.Second)
	}, r))
	return most, served
}

// TestConcurrency never sees more slots in use than there are, whatever the
// network does, and hardly fewer served than could be.
func TestConcurrency(t *testing.T) {
	for _, c := range []struct {
		pops  int
		count int64
	}{{1, 20}, {2, 20}, {5, 100}, {20, 100}} {
		for seed := range uint64(5) {
			for _, loss := range []float64{0, 0.05} {
				net := Net{Delay: limit.Millisecond, Spread: 30 * limit.Millisecond, LoseCall: loss, LoseReply: loss}
				most, served := churn(t, Config{Seed: seed, PoPs: c.pops, Net: net}, c.count)
				if most > c.count {
					t.Errorf("%+v, seed %d, loss %v: %d in use", c, seed, loss, most)
				}
				// Each slot serves a request in 205 ms, for 20 s.
				if could := 20_000 * c.count / 205; served < could/2 || loss == 0 && served < could*7/10 {
					t.Errorf("%+v, seed %d, loss %v: %d served of %d", c, seed, loss, served, could)
				}
			}
		}
	}
}
