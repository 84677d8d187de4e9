package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/sim"
)

// run is a large run: a thousand PoPs of twenty regions under an aggregator.
type run struct {
	sim.Scale
	shapes *sim.Shapes
	before map[*sim.Rule]sim.Totals // when the aggregator lost its counters
	after  map[*sim.Rule]sim.Totals // at the end
	calls  int64
}

func newRun(seed uint64, a limit.Algorithm, rate float64, lasts limit.Micros) *run {
	return &run{Scale: sim.Scale{Seed: seed, Algorithm: a, PoPs: 1000, Regions: 20, Rate: rate, Lasts: lasts}}
}

// play plays the run. In its last tenth the aggregator has lost its counters, and may admit
// a limit more.
func (r *run) play(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, shapes := r.Start()
		defer w.Close()
		r.shapes = shapes
		if err := w.Run(r.Lasts * 9 / 10); err != nil {
			t.Fatal(err)
		}
		r.before = totals(w, shapes)
		w.RestartGranter()
		if err := w.Run(r.Lasts - r.Lasts*9/10); err != nil {
			t.Fatal(err)
		}
		r.after, r.calls = totals(w, shapes), w.Calls.PoPs+w.Calls.Caches
	})
}

func totals(w *sim.World, s *sim.Shapes) map[*sim.Rule]sim.Totals {
	all := map[*sim.Rule]sim.Totals{}
	for _, r := range s.Each() {
		all[r] = w.All(r)
	}
	return all
}

// show prints what the runs admitted, and returns how many requests there were.
func show(runs []*run, took time.Duration) (requests int64) {
	var calls int64
	fmt.Printf("%d PoPs, %d regions, %s of virtual time, of which the table shows nine tenths: then the aggregator loses its counters.\n"+
		"Percent of what one exact limiter admits, and of the limit in the worst period:\n\n",
		runs[0].PoPs, runs[0].Regions, time.Duration(runs[0].Lasts)*time.Microsecond)
	fmt.Printf("%-14s %-8s %10s %10s %10s %8s %10s\n", "algorithm", "traffic", "requests", "admitted", "of exact", "worst", "degraded")
	for _, r := range runs {
		calls += r.calls
		for _, rule := range r.shapes.Each() {
			n := r.before[rule]
			requests += r.after[rule].Requests
			fmt.Printf("%-14s %-8s %10d %10d %8.1f %% %6.0f %% %10d\n", r.Algorithm.String(), rule.Name, n.Requests, n.Admitted,
				100*float64(n.Admitted)/float64(n.Exact), 100*float64(n.Worst)/float64(rule.Spec.Count), n.Degraded)
		}
	}
	fmt.Printf("\n%d requests, %d calls between tiers, in %.1f s; no promise was broken\n", requests, calls, took.Seconds())
	return requests
}
