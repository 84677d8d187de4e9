package sim

import (
	"math"
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Three regions of two replicas and two PoPs with two workers each, 100 ms from the aggregator
// and back, offer 600, 150 and 50 per second of a limit of 500 for 30 s, pause for 10, and go on for 20. In
// the mean of several runs each gets its part within 7 %, and 97.5 % of what one exact limiter would admit is
// admitted. In most runs at most two of 38,400 requests wait for the aggregator. In each run a region calls it
// at most ten times a second. The short form plays a bucket by demand, and a window in equal parts.
func TestRegionParts(t *testing.T) {
	const runs, few, most = 16, 2, 6
	bucket := limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second}
	window := limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second}
	for name, c := range map[string]struct {
		spec    limit.Spec
		sharing rule.Sharing
		parts   [3]float64 // of what each offers
	}{
		"bucket by demand":      {bucket, rule.SharingProportional, [3]float64{0.625, 0.625, 0.625}},
		"bucket in equal parts": {bucket, rule.SharingEqual, [3]float64{0.5, 1, 1}},
		"window by demand":      {window, rule.SharingProportional, [3]float64{0.625, 0.625, 0.625}},
		"window in equal parts": {window, rule.SharingEqual, [3]float64{0.5, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && (c.spec == bucket) != (c.sharing == rule.SharingProportional) {
				t.Skip("runs in make test-long")
			}
			var sum threeRegions
			above, used := 0, 0.0
			for seed := range uint64(runs) {
				n := playThreeRegions(t, seed+1, 2, 1, c.spec, c.sharing)
				if n.waited > few {
					above++
				}
				used, sum.waited = used+n.used/runs, sum.waited+n.waited
				for i := range n.regions {
					sum.regions[i].offered += n.regions[i].offered
					sum.regions[i].admitted += n.regions[i].admitted
				}
			}
			for i, n := range sum.regions {
				if part := n.admitted / n.offered; math.Abs(part/c.parts[i]-1) > 0.07 {
					t.Errorf("region %d: %.4f of what it offers is admitted, want %.4f", i+1, part, c.parts[i])
				}
			}
			t.Logf("%.4f admitted, %d waited, more than %d in %d runs, %+v", used, sum.waited, few, above, sum.regions)
			if above > most {
				t.Errorf("in %d of %d runs more than %d requests waited for the aggregator, want it in at most %d", above, runs, few, most)
			}
			if used < 0.975 || used > 1.001 { // a request that waits for the flip is admitted by the next window
				t.Errorf("%.4f is admitted of what one exact limiter would, want 0.975 to all", used)
			}
		})
	}
}

// TestReplicas: a region of one replica, or of three, asks at most ten times a second (playThreeRegions), also
// when clients send ten times as much. The limit is used, and at most one request in 200 waits for the aggregator.
func TestReplicas(t *testing.T) {
	for _, spec := range []limit.Spec{
		{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second},
		{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second},
	} {
		for _, f := range []rule.Sharing{rule.SharingProportional, rule.SharingEqual} {
			if testing.Short() && f == rule.SharingEqual {
				continue
			}
			for _, replicas := range []int{1, 3} {
				n := playThreeRegions(t, 1, replicas, 1, spec, f)
				t.Logf("%v %v, %d replicas: %.4f admitted, %d waited, %.1f asks a second", spec.Algorithm, f, replicas, n.used, n.waited, n.asks)
				if n.used < 0.96 || n.waited > 200 {
					t.Errorf("%v %v, %d replicas: %.4f is admitted and %d of 38,400 requests waited", spec.Algorithm, f, replicas, n.used, n.waited)
				}
			}
			n := playThreeRegions(t, 1, 2, 10, spec, f)
			t.Logf("%v %v, ten times the requests: %.4f admitted, %d waited, %.1f asks a second", spec.Algorithm, f, n.used, n.waited, n.asks)
		}
	}
}

// threeRegions is what became of the requests of a run.
type threeRegions struct {
	regions [3]struct{ offered, admitted float64 } // from 10 s after it began, and began again
	waited  int                                    // for the aggregator, from 2 s after that
	used    float64                                // of what one exact limiter would admit
	asks    float64                                // of one region, a second
}

// playThreeRegions plays a run with so many replicas, and as many PoPs, in each region, and so many times
// 800 requests a second.
func playThreeRegions(t *testing.T, seed uint64, replicas int, times float64, spec limit.Spec, sharing rule.Sharing) (all threeRegions) {
	const first, again, ends = 30 * limit.Second, 40 * limit.Second, 60 * limit.Second // whole windows
	const knows, settled = 2 * limit.Second, 10 * limit.Second
	r := newRule(t, "shared", spec, lease.Leased)
	r.Scope, r.Sharing, r.OnFailure, r.Timeout = rule.ScopeGlobal, sharing, lease.FailureDeny, 1000
	finished := func(p *pop, r *request) {
		since := r.arrived - epochStart
		if since >= again {
			since -= again
		}
		if since >= knows && p.w.now()-r.arrived > 20*limit.Millisecond { // longer than a region takes by itself
			all.waited++
		}
		if since < settled {
			return
		}
		number, _ := strconv.Atoi(p.Name[1:]) // as Play names it
		n := &all.regions[(number-1)%len(all.regions)]
		if n.offered++; r.admitted {
			n.admitted++
		}
	}
	fatal.If(t, Play(Config{
		Seed: seed, PoPs: 3 * replicas, Relays: 3 * replicas, Regions: len(all.regions), Workers: 2,
		Net: Net{Delay: limit.Millisecond, Spread: limit.Millisecond}, AggregatorNet: Net{Delay: 50 * limit.Millisecond},
		Fault: Fault{taken: finished},
	}, func(w *World) error {
		offer := func(lasts limit.Micros) {
			for n := range w.PoPs {
				w.Offer(n+1, Load{Rate: times * []float64{600, 150, 50}[n%len(all.regions)] / float64(replicas), Parts: Key(r, "k", 1)}, lasts)
			}
		}
		offer(first)
		w.after(again, func() { offer(ends - again) })
		err := w.Run(ends)
		loaded := seconds(first + ends - again)
		if all.asks = float64(w.Calls.Caches) / float64(len(all.regions)) / loaded; all.asks > 10.5 { // pauses have a jitter of a tenth
			t.Errorf("seed %d: %.1f calls a second and region of %d replicas, want about 10 at most", seed, all.asks, replicas)
		}
		if pops := float64(w.Calls.PoPs) / float64(w.PoPs) / loaded; pops > 16 {
			t.Errorf("seed %d: %.1f calls a second and PoP, want at most 16", seed, pops)
		}
		n := w.Totals(r, "k")
		all.used = float64(n.Admitted) / float64(n.Exact)
		return err
	}, r))
	return all
}
