//go:build linux

// Package region measures the region's rate limit service beside envoyproxy/ratelimit, on one Redis Cluster of
// three masters. It needs what `make setup` and `make build` leave; the others it builds itself.
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

	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

type bench struct {
	plan
	*rig.Rig
	redis *redistest.Cluster
}

// plan is how long each part of the benchmark runs. Each service and load has its turn, and that a few times, so that
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
}

var (
	fullPlan = plan{
		keys:  10_000,
		turns: 2, rounds: 3, round: 1500 * time.Millisecond,
		settle: 700 * time.Millisecond, lease: 11 * time.Second,
	}
	quickPlan = plan{
		keys:  10_000,
		turns: 1, rounds: 1, round: 500 * time.Millisecond,
		settle: 300 * time.Millisecond, lease: 2 * time.Second,
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
		b.redis = redistest.StartCluster(r, 3, 0)
		return []rig.Part{{Name: "closed", Run: b.closedLoop}, {Name: "slow", Run: b.fixedRate}}
	})
}

// redisMeter is the processor time of the nodes of Redis without what they use with nothing to do, which it measures.
func (b *bench) redisMeter() rig.Meter {
	before, begin := b.redis.CPU(), time.Now()
	b.Wait(time.Second)
	return rig.Meter{Used: b.redis.CPU, Idle: float64(b.redis.CPU()-before) / float64(time.Since(begin))}
}
