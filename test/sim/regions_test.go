package sim

import (
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Three regions of two replicas and two PoPs with two workers each, 100 ms from the aggregator
// and back, offer 600, 150 and 50 per second of a limit of 500. In the mean of several runs each gets its
// part within 7 %, 98 % of the limit and more is admitted, and next to no request waits for the aggregator;
// in each run a region calls it at most ten times a second.
func TestRegionParts(t *testing.T) {
	bucket := limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second}
	window := limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second}
	for name, c := range map[string]struct {
		spec  limit.Spec
		fair  rule.Fair
		parts [3]float64 // of what each offers
	}{
		"bucket by demand":      {bucket, rule.FairDemand, [3]float64{0.625, 0.625, 0.625}},
		"bucket in equal parts": {bucket, rule.FairEqual, [3]float64{0.5, 1, 1}},
		"window by demand":      {window, rule.FairDemand, [3]float64{0.625, 0.625, 0.625}},
		"window in equal parts": {window, rule.FairEqual, [3]float64{0.5, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			const runs = 8
			var regions [3]regionTally
			used := 0.0
			for seed := range uint64(runs) {
				bubble(t, func(t *testing.T) { used += playRegionParts(t, seed+1, c.spec, c.fair, &regions) / runs })
			}
			late := 0.0
			for i, n := range regions {
				if part := n.admitted / n.offered; math.Abs(part/c.parts[i]-1) > 0.07 {
					t.Errorf("region %d: %.4f of what it offers is admitted, want %.4f", i+1, part, c.parts[i])
				}
				late += n.late
			}
			t.Logf("%.4f admitted, %.0f waited, %+v", used, late, regions)
			if late > 10*runs {
				t.Errorf("%.0f requests waited for the aggregator in %d runs, want next to none", late, runs)
			}
			if used < 0.98 || used > 1 {
				t.Errorf("%.4f of the limit is admitted, want 0.98 to all", used)
			}
		})
	}
}

// regionTally is what became of the requests of a region.
type regionTally struct{ offered, admitted, late float64 }

// playRegionParts plays one run, adds up what became of requests from the second window on, and returns the
// part of the limit that was admitted.
func playRegionParts(t *testing.T, seed uint64, spec limit.Spec, fair rule.Fair, regions *[3]regionTally) float64 {
	const lasts, settled = 30 * limit.Second, 10 * limit.Second // whole windows
	r := newRule(t, "shared", spec, lease.Leased)
	r.Scope, r.Fair, r.OnFailure, r.Timeout = rule.ScopeGlobal, fair, lease.FailureDeny, 1000
	var w *World
	finished := func(p *pop, r *request) {
		if w.now < epochStart+settled {
			return
		}
		n := &regions[int(p.name[1]-'1')%len(regions)]
		if n.offered++; r.admitted {
			n.admitted++
		}
		if w.now-r.arrived > 20*limit.Millisecond { // longer than a region takes by itself
			n.late++
		}
	}
	w = New(Config{
		Seed: seed, PoPs: 6, Relays: 6, Regions: len(regions), Workers: 2,
		Net: Net{Delay: limit.Millisecond, Spread: limit.Millisecond}, Far: Net{Delay: 50 * limit.Millisecond},
		Fault: Fault{taken: finished},
	}, r)
	defer w.Close()
	for n := range w.PoPs {
		w.Offer(n+1, Load{Rate: []float64{300, 75, 25}[n%len(regions)], Parts: Key(r, "k", 1)}, lasts)
	}
	if err := w.Run(lasts); err != nil {
		t.Fatal(err)
	}
	n := w.Totals(r, "k")
	if calls := float64(w.Calls.Caches) / float64(len(regions)) / seconds(lasts); calls > 10 {
		t.Errorf("seed %d: %.1f calls a second and region, want at most 10", seed, calls)
	}
	if pops := float64(w.Calls.PoPs) / float64(w.PoPs) / seconds(lasts); pops > 16 {
		t.Errorf("seed %d: %.1f calls a second and PoP, want at most 16", seed, pops)
	}
	return float64(n.Admitted) / float64(n.Exact)
}
