//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/table"
)

// Part is a part of a benchmark.
type Part struct {
	Name string
	Run  func(context.Context) ([]table.Section, error)
}

// Measure runs a benchmark and returns its table: with an error, what there is of it.
// start starts what several parts use, and returns the parts. Those run whose names are
// in only, with commas between; empty: all. One that fails does not keep the others from
// being measured.
func Measure(ctx context.Context, only string, progress io.Writer, start func(*Rig) ([]Part, error)) ([]table.Section, error) {
	r, err := open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	sections, err := r.measure(only, progress, start)
	if err != nil {
		return sections, fmt.Errorf("%w (logs in %s)", err, r.Dir)
	}
	return sections, r.discard()
}

func (r *Rig) measure(only string, progress io.Writer, start func(*Rig) ([]Part, error)) (sections []table.Section, err error) {
	parts, err := start(r)
	if err != nil {
		return nil, err
	}
	end, err := r.watch()
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.Name) || r.Ctx.Err() != nil {
			continue
		}
		begin := time.Now()
		measured, err2 := p.measure(r.Ctx)
		if err2 != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.Name, err2))
		}
		fmt.Fprintf(progress, "%s: %.0f s\n", p.Name, time.Since(begin).Seconds())
		sections = append(sections, measured...)
	}
	machine, err2 := end()
	return append(sections, machine), errors.Join(err, err2, r.Ctx.Err())
}

// measure runs the part. What a program of the rig cannot do is an error here.
func (p Part) measure(ctx context.Context) (s []table.Section, err error) {
	defer proc.Recover(&err)
	return p.Run(ctx)
}
