//go:build linux

// Package edge measures what the filter costs: real Envoys with it and without,
// and the region behind it. It needs what `make setup` and `make build` leave.
//
// Every Envoy has one worker thread, or two in the part of that name, and runs envoy/pop.yaml, the bootstrap that is
// shipped, with other addresses and without an access log. Two Envoys differ by their
// filter and by nothing else.
package edge

import (
	"context"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// bench is one run of the edge benchmark.
type bench struct {
	plan
	*rig.Rig

	upstream *envoy.Envoy // answers 200 to everything
	workers  int          // threads of the Envoys that are started
}

// plan is how long each part runs.
type plan struct {
	keys uint32 // of the traffic over many keys

	rounds int           // of the closed loops
	round  time.Duration // of one mode in one of those
	warm   time.Duration // before the first round of each mode; Weir: up to five times that
	resume time.Duration // before each other round of Weir in the part alone

	fixedRounds int
	fixedRound  time.Duration

	// The whole path is not interleaved: leases expire while a PoP rests, so a
	// round after a rest would measure a start. Each traffic runs settle unmeasured
	// (a lease lives for 10 s), then chunks of chunk.
	settle time.Duration
	chunk  time.Duration
	chunks int
}

var (
	fullPlan = plan{
		keys:   10_000,
		rounds: 12, round: 1200 * time.Millisecond, warm: 2 * time.Second, resume: time.Second,
		fixedRounds: 6, fixedRound: 4 * time.Second,
		settle: 15 * time.Second, chunk: 8 * time.Second, chunks: 4,
	}
	quickPlan = plan{
		keys:   1_000,
		rounds: 2, round: 700 * time.Millisecond, warm: time.Second, resume: time.Second,
		fixedRounds: 2, fixedRound: time.Second,
		settle: 2 * time.Second, chunk: 2 * time.Second, chunks: 3,
	}
)

// Run runs the benchmark and returns the table: with an error, what there is of it.
func Run(ctx context.Context, opts rig.Options) ([]table.Section, error) {
	b := &bench{plan: fullPlan, workers: 1}
	if opts.Quick {
		b.plan = quickPlan
	}
	return rig.Measure(ctx, opts, func(r *rig.Rig) []rig.Part {
		b.Rig = r
		b.upstream = b.envoy("upstream", "demo_upstream", func(*envoy.Bootstrap) {})
		return []rig.Part{{Name: "alone", Run: b.alone}, {Name: "fixed", Run: b.fixedRate}, {Name: "workers", Run: b.twoWorkers}, {Name: "path", Run: b.wholePath}}
	})
}
