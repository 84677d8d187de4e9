//go:build linux

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/weirlimit/weir/test/load/drive"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

type edgeOptions struct {
	plan      plan
	peersOnly bool
	profile   bool
	only      string
}

// bench is one run of the edge benchmark.
type bench struct {
	edgeOptions
	*rig.Rig
	progress io.Writer
	upstream *rig.Envoy
	bare     *rig.Envoy
	clients  []*drive.Client
}

// edge runs every part and returns the table.
func edge(ctx context.Context, opts edgeOptions, progress io.Writer) ([]table.Section, error) {
	r, err := rig.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := &bench{edgeOptions: opts, Rig: r, progress: progress}
	defer func() {
		for _, c := range b.clients {
			c.Close()
		}
	}()
	if b.upstream, err = r.Upstream(ctx); err != nil {
		return nil, err
	}
	if b.bare, err = r.Bare(ctx, b.upstream); err != nil {
		return nil, err
	}
	var sections []table.Section
	for _, part := range []struct {
		name string
		run  func(context.Context) (table.Section, error)
	}{
		{"closed", b.closedLoop},
		{"fixed", b.fixedRate},
	} {
		if opts.only != "" && opts.only != part.name {
			continue
		}
		fmt.Fprintf(progress, "%s ...\n", part.name)
		s, err := part.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w (logs in %s)", part.name, err, r.Dir())
		}
		sections = append(sections, s)
	}
	return sections, nil
}

// mode makes a mode that asks an Envoy for path over conns connections.
func (b *bench) mode(name string, e *rig.Envoy, path string, conns int, keys drive.Keys, status int) (*mode, error) {
	client, err := drive.Dial(e.Addr, path, conns)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b.clients = append(b.clients, client)
	return &mode{name: name, client: client, keys: keys, status: status, procs: []*rig.Process{e.Process}}, nil
}

// interleave warms every mode up and then runs them in turns.
func interleave(ctx context.Context, modes []*mode, warm, load drive.Load, rounds int) error {
	for _, m := range modes {
		if err := m.warmUp(ctx, warm); err != nil {
			return err
		}
	}
	for range rounds {
		for _, m := range modes {
			if err := m.round(ctx, load); err != nil {
				return err
			}
		}
	}
	return nil
}
