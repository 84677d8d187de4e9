//go:build linux

// Package rig is what benchmarks run on: programs, each in a process of its own, so that the
// CPU time and memory of each can be read by itself, and rounds of requests to them. It starts
// out empty. What cannot be done ends the part of the benchmark that wanted it, as Fatalf ends
// a test.
package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/table"
)

// Rig is a set of running programs, which end with it, or with the part that started them. They may be started by
// several goroutines, and write to a new directory in .run.
type Rig struct{ proc.Program }

// Part is a part of a benchmark, and its sections of the table.
type Part struct {
	Name string
	Run  func() []table.Section
}

// Options are which parts of a benchmark run, and for how long.
type Options struct {
	Quick    bool      // fewer and shorter rounds: smoke, not figures
	Only     string    // names of parts with commas between; empty: all
	Plots    string    // directory of the plots that the benchmark draws, where it does; empty: none
	Progress io.Writer // receives a line for each part that has ended
}

// Measure runs a benchmark and returns its table: with an error, what there is of it.
// start starts what several parts use, and returns the parts. One that fails does not keep
// the others from being measured.
func Measure(ctx context.Context, opts Options, start func(*Rig) []Part) (sections []table.Section, err error) {
	r := &Rig{proc.Program{Ctx: ctx}}
	defer r.Close()
	var parts []Part
	err = try(func() {
		r.Dir = proc.NewDir(r, "bench")
		parts = start(r)
	})
	for _, p := range parts {
		if opts.Only != "" && !slices.Contains(strings.Split(opts.Only, ","), p.Name) || ctx.Err() != nil {
			continue
		}
		begin := time.Now()
		if failed := try(func() { r.Within(func() { sections = append(sections, p.Run()...) }) }); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.Name, failed))
		}
		fmt.Fprintf(opts.Progress, "%s: %.0f s\n", p.Name, time.Since(begin).Seconds())
	}
	switch {
	case err != nil:
		return sections, fmt.Errorf("%w (logs in %s)", err, r.Dir)
	case ctx.Err() == nil && len(sections) == 0:
		return nil, fmt.Errorf("no part is named %q", opts.Only)
	}
	return sections, errors.Join(ctx.Err(), os.RemoveAll(r.Dir))
}

// try makes an error of what a rig could not do.
func try(f func()) (err error) {
	defer proc.Recover(&err)
	f()
	return nil
}

// Together runs so many at once and waits for all.
func (r *Rig) Together(n int, run func(i int)) {
	errs := make([]error, n)
	proc.Together(n, func(i int) { errs[i] = try(func() { run(i) }) })
	r.Must(errors.Join(errs...))
}

// Must ends the part if there is an error.
func (r *Rig) Must(err error) {
	if err != nil {
		r.Fatalf("%w", err)
	}
}

// Wait lets time pass.
func (r *Rig) Wait(d time.Duration) {
	select {
	case <-r.Ctx.Done():
		r.Must(r.Ctx.Err())
	case <-time.After(d):
	}
}
