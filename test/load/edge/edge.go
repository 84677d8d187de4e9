//go:build linux

// Package edge measures what the filter costs: real Envoys with it and without,
// and the region behind it. It needs what `make setup` and `make build` leave.
package edge

import (
	"context"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// Options are which parts of the benchmark run. The zero value is all of it, in full.
type Options struct {
	Quick bool   // fewer and shorter rounds
	Only  string // names of parts with commas between; empty: all
}

// bench is one run of the edge benchmark.
type bench struct {
	Options
	plan plan
	*rig.Rig

	upstream         *envoy.Envoy
	bare             *envoy.Envoy
	native, refusing *envoy.Envoy // local_ratelimit
	one, three       *place       // Weir with so many rules per request
}

// Run runs every part and returns the table: with an error, what there is of it.
func Run(ctx context.Context, opts Options, progress io.Writer) ([]table.Section, error) {
	if opts.Quick {
		return run(ctx, opts, quickPlan, progress)
	}
	return run(ctx, opts, fullPlan, progress)
}

func run(ctx context.Context, opts Options, p plan, progress io.Writer) ([]table.Section, error) {
	return rig.Measure(ctx, opts.Only, progress, func(r *rig.Rig) ([]rig.Part, error) {
		b := &bench{Options: opts, plan: p, Rig: r}
		return b.parts(), b.start(ctx)
	})
}

func (b *bench) parts() []rig.Part {
	return []rig.Part{{Name: "closed", Run: b.closedLoop}, {Name: "fixed", Run: b.fixedRate}, {Name: "path", Run: b.wholePath}, {Name: "memory", Run: b.memory}}
}

// start starts what several parts use.
func (b *bench) start(ctx context.Context) (err error) {
	if b.upstream, err = b.Upstream(); err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() (err error) { b.bare, err = b.Bare("bare", b.upstream); return })
	g.Go(func() (err error) { b.native, err = b.Native("native", b.upstream, 10_000_000); return })
	g.Go(func() (err error) { b.refusing, err = b.Native("native-refusing", b.upstream, 0); return })
	g.Go(func() (err error) { b.one, err = b.place(ctx, "one", oneRule, "/one/thing"); return })
	g.Go(func() (err error) { b.three, err = b.place(ctx, "three", threeRules, "/three/thing"); return })
	return g.Wait()
}
