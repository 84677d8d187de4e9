//go:build linux

// Package region measures the region's rate limit service beside envoyproxy/ratelimit, and its Redis scripts, on one
// Redis Cluster of three masters. It needs what `make setup` and `make build` leave; the others it builds itself.
//
// What the table calls theirs is envoyproxy/ratelimit with or without its local
// cache of denials, whichever did better (without it where Redis is compared, since
// the cache is off unless asked for). All services have the same limits, get the same load from one thread,
// and leave their other settings as they are. Where a service keeps leases on many
// keys it is measured once it has them: they come within a few seconds of a load,
// and the others have nothing of the kind to wait for.
package region

import (
	"context"
	"time"

	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

type bench struct {
	plan
	*rig.Rig
	redis *cluster
}

// plan is how long each part of the benchmark runs. In the parts that compare
// services, each service and load has its turn, and that a few times, so that
// whatever else the machine does falls on all of them alike.
type plan struct {
	keys uint32 // of the uniform load

	turns  int           // of each service and load
	rounds int           // measured in a turn, without a rest
	round  time.Duration // of one of these
	// settle is before the rounds of each turn. Leases run out within ten seconds
	// while a service waits for its turn, and what is unspent then goes back: lease
	// is settle where they matter, and how long to rest afterwards.
	settle, lease time.Duration

	acquireTurns int
	acquire      time.Duration // of each way of acquiring, in one of those

	flood time.Duration // of one key, of each kind

	stored     int           // keys whose bytes are counted
	storedTime time.Duration // but no more than are stored in this time, of each algorithm
}

var (
	fullPlan = plan{
		keys:  10_000,
		turns: 2, rounds: 3, round: 1500 * time.Millisecond,
		settle: 700 * time.Millisecond, lease: 11 * time.Second,
		acquireTurns: 5, acquire: time.Second,
		flood:  5 * time.Second,
		stored: 100_000, storedTime: 5 * time.Minute,
	}
	quickPlan = plan{
		keys:  10_000,
		turns: 1, rounds: 1, round: 500 * time.Millisecond,
		settle: 300 * time.Millisecond, lease: 2 * time.Second,
		acquireTurns: 2, acquire: 300 * time.Millisecond,
		flood:  2 * time.Second,
		stored: 10_000, storedTime: 3 * time.Second,
	}
)

const (
	conns    = 64
	slowRate = 1_500 // requests per second, which every service sustains and sleeps between
)

// Run runs the benchmark and returns the table: with an error, what there is of it.
func Run(ctx context.Context, opts rig.Options) ([]table.Section, error) {
	return rig.Measure(ctx, opts, func(r *rig.Rig) []rig.Part {
		b := &bench{plan: fullPlan, Rig: r}
		if opts.Quick {
			b.plan = quickPlan
		}
		b.redis = startCluster(r)
		return []rig.Part{
			{Name: "closed", Run: b.closedLoop}, {Name: "slow", Run: b.fixedRate}, {Name: "acquires", Run: b.acquires},
			{Name: "attack", Run: b.attacks}, {Name: "memory", Run: b.memory},
		}
	})
}
