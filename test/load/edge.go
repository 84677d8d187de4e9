//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/test/load/drive"
	"github.com/weirlimit/weir/test/load/measure"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

type edgeOptions struct {
	plan      plan
	peersOnly bool // bare Envoy and its native limiter, nothing of Weir
	profile   bool
	only      string // the name of a part; empty means all
}

// bench is one run of the edge benchmark.
type bench struct {
	edgeOptions
	*rig.Rig
	progress io.Writer
	clients  []*drive.Client
	profiles []table.Section

	upstream         *rig.Envoy
	bare             *rig.Envoy
	native, refusing *rig.Envoy // local_ratelimit
	one, three       *place     // Weir with so many rules per request; nil with peersOnly
}

// edge runs every part and returns the table: with an error, what there is of it.
func edge(ctx context.Context, opts edgeOptions, progress io.Writer) ([]table.Section, error) {
	r, err := rig.Open()
	if err != nil {
		return nil, err
	}
	b := &bench{edgeOptions: opts, Rig: r, progress: progress}
	defer b.close()
	if err := b.start(ctx); err != nil {
		return nil, fmt.Errorf("%w (logs in %s)", err, r.Dir())
	}
	machine, err := b.watch()
	if err != nil {
		return nil, err
	}
	sections, err := b.measure(ctx)
	others, err2 := machine()
	if err = errors.Join(err, err2); err != nil {
		return append(sections, others), fmt.Errorf("%w (logs in %s)", err, r.Dir())
	}
	return append(sections, others), r.Discard()
}

// measure runs the parts. One that fails does not keep the others from being
// measured; its error comes with their sections.
func (b *bench) measure(ctx context.Context) (sections []table.Section, err error) {
	for _, part := range b.parts() {
		if b.only != "" && b.only != part.name || ctx.Err() != nil {
			continue
		}
		begin := time.Now()
		s, err2 := part.run(ctx)
		if err2 != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.name, err2))
			continue
		}
		fmt.Fprintf(b.progress, "%s: %.0f s\n", part.name, time.Since(begin).Seconds())
		sections = append(sections, s)
	}
	return append(sections, b.profiles...), errors.Join(err, ctx.Err())
}

// watch begins to watch the machine; what it returns ends that, and says how much
// of it others used, and so how far the figures can be trusted.
func (b *bench) watch() (end func() (table.Section, error), err error) {
	begin := time.Now()
	before, err := b.othersBusy()
	if err != nil {
		return nil, err
	}
	return func() (table.Section, error) {
		after, err := b.othersBusy()
		share := 100 * float64(after-before) / float64(time.Since(begin)) / float64(runtime.NumCPU())
		row := table.Row{Name: "CPU time that other programs used", Unit: "%",
			Value: measure.Sample{max(share, 0)}, Note: measure.Load()}
		if share > quietShare {
			row.Note += ": NOT A QUIET MACHINE, the figures are too high"
		}
		return table.Section{Title: "The machine meanwhile", Rows: []table.Row{row}}, err
	}, nil
}

// othersBusy is the CPU time of all programs but ours.
func (b *bench) othersBusy() (time.Duration, error) {
	all, err := measure.Busy()
	if err != nil {
		return 0, err
	}
	ours, err := b.CPU()
	return all - ours, err
}

type part struct {
	name string
	run  func(context.Context) (table.Section, error)
}

func (b *bench) parts() []part {
	parts := []part{{"closed", b.closedLoop}, {"fixed", b.fixedRate}}
	if b.peersOnly {
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
	if b.upstream, err = b.Upstream(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { b.bare, err = b.Bare(ctx, "bare", b.upstream); return })
	g.Go(func() (err error) { b.native, err = b.Native(ctx, "native", b.upstream, 10_000_000); return })
	g.Go(func() (err error) { b.refusing, err = b.Native(ctx, "native-refusing", b.upstream, 0); return })
	if !b.peersOnly {
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
