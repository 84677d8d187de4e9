//go:build linux

// Package edge measures what the filter costs: real Envoys with it and without,
// and the region behind it. It needs what `make setup` and `make build` leave.
package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/loadgen"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// Options say what of the benchmark runs. The zero value is all of it, in full.
type Options struct {
	Quick     bool   // fewer and shorter rounds
	PeersOnly bool   // bare Envoy and its native limiter, nothing of Weir
	Profile   bool   // profile each mode after measuring it
	Only      string // the part with this name; empty: all
}

// bench is one run of the edge benchmark.
type bench struct {
	Options
	plan plan
	*rig.Rig
	progress io.Writer
	clients  []*loadgen.Client
	profiles []table.Section

	upstream         *envoy.Envoy
	bare             *envoy.Envoy
	native, refusing *envoy.Envoy // local_ratelimit
	one, three       *place       // Weir with so many rules per request; nil with peersOnly
}

// Run runs every part and returns the table: with an error, what there is of it.
func Run(ctx context.Context, opts Options, progress io.Writer) ([]table.Section, error) {
	if opts.Quick {
		return run(ctx, opts, quickPlan, progress)
	}
	return run(ctx, opts, fullPlan, progress)
}

func run(ctx context.Context, opts Options, p plan, progress io.Writer) ([]table.Section, error) {
	r, err := rig.Open(ctx)
	if err != nil {
		return nil, err
	}
	b := &bench{Options: opts, plan: p, Rig: r, progress: progress}
	defer b.close()
	if err := b.start(ctx); err != nil {
		return nil, fmt.Errorf("%w (logs in %s)", err, r.Dir)
	}
	machine, err := b.Watch()
	if err != nil {
		return nil, err
	}
	sections, err := b.measure(ctx)
	others, err2 := machine()
	if err = errors.Join(err, err2); err != nil {
		return append(sections, others), fmt.Errorf("%w (logs in %s)", err, r.Dir)
	}
	return append(sections, others), r.Discard()
}

// measure runs the parts. One that fails does not keep the others from being
// measured; its error comes with their sections.
func (b *bench) measure(ctx context.Context) (sections []table.Section, err error) {
	for _, part := range b.parts() {
		if b.Only != "" && b.Only != part.name || ctx.Err() != nil {
			continue
		}
		begin := time.Now()
		s, err2 := part.measure(ctx)
		if err2 != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.name, err2))
			continue
		}
		fmt.Fprintf(b.progress, "%s: %.0f s\n", part.name, time.Since(begin).Seconds())
		sections = append(sections, s)
	}
	return append(sections, b.profiles...), errors.Join(err, ctx.Err())
}

type part struct {
	name string
	run  func(context.Context) (table.Section, error)
}

// measure runs the part. What a program of the rig cannot do is an error here.
func (p part) measure(ctx context.Context) (s table.Section, err error) {
	defer proc.Recover(&err)
	return p.run(ctx)
}

func (b *bench) parts() []part {
	parts := []part{{"closed", b.closedLoop}, {"fixed", b.fixedRate}}
	if b.PeersOnly {
		return parts
	}
	parts = append(parts, part{"path", b.wholePath}, part{"memory", b.memory})
	if b.plan.benchTime == 0 {
		return parts
	}
	return append(parts, part{"go", b.micro})
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
	if !b.PeersOnly {
		g.Go(func() (err error) { b.one, err = b.place(ctx, "one", oneRule, "/one/thing"); return })
		g.Go(func() (err error) { b.three, err = b.place(ctx, "three", threeRules, "/three/thing"); return })
	}
	return g.Wait()
}

func (b *bench) close() {
	for _, c := range b.clients {
		c.Close()
	}
	b.Close()
}
