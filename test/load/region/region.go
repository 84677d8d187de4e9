//go:build linux

// Package region measures the region's rate limit service and its Redis scripts
// beside envoyproxy/ratelimit and go-redis/redis_rate, on one Redis Cluster of
// three masters. It needs what `make setup` and `make build` leave; the others it
// builds itself.
//
// What the table calls theirs is envoyproxy/ratelimit with or without its local
// cache of denials, whichever did better (without it where Redis is compared, since
// the cache is off unless asked for); redis_rate where acquires and memory are
// compared. All services have the same limits, get the same load from one thread,
// and leave their other settings as they are. Where a service keeps leases on many
// keys it is measured once it has them: they come within a few seconds of a load,
// and the others have nothing of the kind to wait for.
package region

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// Options are which parts of the benchmark run. The zero value is all of it, in full.
type Options struct {
	Quick bool   // fewer and shorter rounds
	Only  string // names of [Parts] with commas between; empty: all
}

// Parts are the names of the parts, in their order.
var Parts = []string{"closed", "slow", "middle", "acquires", "attack", "memory"}

// bench is one run.
type bench struct {
	Options
	plan plan
	*rig.Rig
	peers    *rig.Peers
	redis    *cluster
	services *services // nil until a part needs them
}

// Run runs every part and returns the table: with an error, what there is of it.
func Run(ctx context.Context, opts Options, progress io.Writer) ([]table.Section, error) {
	if opts.Quick {
		return run(ctx, opts, quickPlan, progress)
	}
	return run(ctx, opts, fullPlan, progress)
}

func run(ctx context.Context, opts Options, p plan, progress io.Writer) ([]table.Section, error) {
	for name := range strings.SplitSeq(opts.Only, ",") {
		if opts.Only != "" && !slices.Contains(Parts, name) {
			return nil, fmt.Errorf("no part %q; there are: %s", name, strings.Join(Parts, ", "))
		}
	}
	return rig.Measure(ctx, opts.Only, progress, func(r *rig.Rig) (parts []rig.Part, err error) {
		b := &bench{Options: opts, plan: p, Rig: r}
		if b.peers, err = b.Peers(); err != nil {
			return nil, err
		}
		if b.redis, err = startCluster(b.Rig); err != nil {
			return nil, err
		}
		for _, name := range Parts {
			parts = append(parts, rig.Part{Name: name, Run: func(ctx context.Context) ([]table.Section, error) { return b.part(ctx, name) }})
		}
		return parts, nil
	})
}

// part runs one part.
func (b *bench) part(ctx context.Context, name string) ([]table.Section, error) {
	switch name {
	case "closed":
		return b.closedLoop(ctx)
	case "slow":
		return b.fixedRate(ctx, slowRate)
	case "middle":
		return b.fixedRate(ctx, middleRate)
	case "acquires":
		return b.acquires(ctx)
	case "attack":
		return b.attacks(ctx)
	}
	return b.memory(ctx)
}
