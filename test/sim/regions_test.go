package sim

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Three regions of two replicas and two PoPs with two workers each, 100 ms from the aggregator
// and back, offer 600, 150 and 50 per second of a limit of 500: each gets its part, nearly all of
// the limit is admitted, next to no request waits for the aggregator, and a region calls it at most
// ten times a second.
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
			bubble(t, func(t *testing.T) { playRegionParts(t, c.spec, c.fair, c.parts) })
		})
	}
}

// regionTally is what became of the requests of a region.
type regionTally struct{ offered, admitted, late float64 }

func playRegionParts(t *testing.T, spec limit.Spec, fair rule.Fair, parts [3]float64) {
	const lasts, settled = 30 * limit.Second, 10 * limit.Second // whole windows
	r := newRule(t, "shared", spec, lease.Leased)
	r.Scope, r.Fair, r.OnFailure, r.Timeout = rule.ScopeGlobal, fair, lease.FailureDeny, 1000
	var regions [3]regionTally
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
		Seed: 1, PoPs: 6, Relays: 6, Regions: len(regions), Workers: 2,
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
	late := 0.0
	for i, n := range regions {
		t.Logf("region %d: %.0f offered, %.0f admitted, %.0f waited for the aggregator", i+1, n.offered, n.admitted, n.late)
		if part := n.admitted / n.offered; part < parts[i]*0.85 || part > parts[i]*1.18 {
			t.Errorf("region %d: %.3f of what it offers is admitted, want %.3f", i+1, part, parts[i])
		}
		late += n.late
	}
	if late > 40 {
		t.Errorf("%.0f requests waited for the aggregator, want next to none", late)
	}
	n := w.Totals(r, "k")
	used, calls := float64(n.Admitted)/float64(n.Exact), float64(w.Calls.Caches)/float64(len(regions))/seconds(lasts)
	t.Logf("%.4f admitted, %.1f calls a second and region", used, calls)
	if used < 0.97 || used > 1 {
		t.Errorf("%.4f of the limit is admitted, want 0.97 to all", used)
	}
	if calls > 10 {
		t.Errorf("%.1f calls a second and region, want at most 10", calls)
	}
	if pops := float64(w.Calls.PoPs) / float64(w.PoPs) / seconds(lasts); pops > 16 {
		t.Errorf("%.1f calls a second and PoP, want at most 16", pops)
	}
}
