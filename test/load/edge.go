//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/test/load/drive"
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

// edge runs every part and returns the table.
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
	var sections []table.Section
	for _, part := range b.parts() {
		if opts.only != "" && opts.only != part.name {
			continue
		}
		begin := time.Now()
		s, err := part.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w (logs in %s)", part.name, err, r.Dir())
		}
		fmt.Fprintf(progress, "%s: %.0f s\n", part.name, time.Since(begin).Seconds())
		sections = append(sections, s)
	}
	return append(sections, b.profiles...), r.Discard()
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
	return append(parts, part{"path", b.wholePath}, part{"memory", b.memory}, part{"go", b.micro})
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
