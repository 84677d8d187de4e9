package sim

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// TestNextToNobodyWaits: three regions, 100 ms from the aggregator and back, offer 600, 150 and 50
// requests per second of a limit of 500, pause, and offer them again. The limit is used, and next to no
// request waits for another region: in most runs at most two of 28,800.
func TestNextToNobodyWaits(t *testing.T) {
	const runs, few, most = 16, 2, 4
	bucket := limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second}
	window := limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second}
	for _, c := range []struct {
		name string
		spec limit.Spec
		fair rule.Fair
	}{
		{"bucket by demand", bucket, rule.FairDemand},
		{"bucket in equal parts", bucket, rule.FairEqual},
		{"window by demand", window, rule.FairDemand},
		{"window in equal parts", window, rule.FairEqual},
	} {
		t.Run(c.name, func(t *testing.T) {
			waits, above, admitted, offered := 0, 0, int64(0), int64(0)
			for seed := range runs {
				bubble(t, func(t *testing.T) {
					n := playThreeRegions(t, uint64(seed+1), c.spec, c.fair)
					waits, admitted, offered = waits+n.waits, admitted+n.admitted, offered+n.exact
					if n.waits > few {
						above++
					}
					if n.asks > 10 {
						t.Errorf("seed %d: each region asked %.1f times per second", seed+1, n.asks)
					}
				})
			}
			used := float64(admitted) / float64(offered)
			t.Logf("%d requests waited in %d runs, more than %d in %d of them; %.2f %% was admitted of what one exact limiter would", waits, runs, few, above, 100*used)
			if above > most {
				t.Errorf("in %d of %d runs more than %d requests waited for another region, want it in at most %d", above, runs, few, most)
			}
			if used < 0.97 || used > 1 {
				t.Errorf("%.2f %% was admitted, want 97 %% to 100 %%", 100*used)
			}
		})
	}
}

type threeRegions struct {
	waits           int // of requests for another region, from the third second on
	admitted, exact int64
	asks            float64 // of one region per second
}

func playThreeRegions(t *testing.T, seed uint64, spec limit.Spec, fair rule.Fair) (n threeRegions) {
	const first, pause, second = 30 * limit.Second, 10 * limit.Second, 10 * limit.Second
	const settled, far = 2 * limit.Second, 20 * limit.Millisecond
	r := newRule(t, "shared", spec, lease.Leased)
	r.Scope, r.Fair, r.OnFailure, r.Timeout = rule.ScopeGlobal, fair, lease.FailureDeny, 1000
	var w *World
	finished := func(_ *pop, r *request) {
		since := r.arrived - epochStart
		if since >= first+pause {
			since -= first + pause
		}
		if since >= settled && w.now-r.arrived > far {
			n.waits++
		}
	}
	w = New(Config{
		Seed: seed, PoPs: 6, Relays: 6, Regions: 3, Workers: 2,
		Net: Net{Delay: limit.Millisecond, Spread: limit.Millisecond}, Far: Net{Delay: 50 * limit.Millisecond},
		Fault: Fault{taken: finished},
	}, r)
	defer w.Close()
	offer := func(lasts limit.Micros) {
		for i := range w.PoPs {
			w.Offer(i+1, Load{Rate: []float64{300, 75, 25}[i%3], Parts: Key(r, "k", 1)}, lasts)
		}
	}
	offer(first)
	w.after(first+pause, func() { offer(second) })
	if err := w.Run(first + pause + second); err != nil {
		t.Fatal(err)
	}
	sum := w.Totals(r, "k")
	n.admitted, n.exact = sum.Admitted, sum.Exact
	n.asks = float64(w.Calls.Caches) / 3 / seconds(first+second)
	return n
}
