//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"strings"

	"github.com/weirlimit/weir/test/load/measure"
	"github.com/weirlimit/weir/test/load/table"
)

// micro runs the Go benchmarks of the pure packages and of the region's front
// cache, on one core.
func (b *bench) micro(ctx context.Context) (table.Section, error) {
	s := table.Section{Title: "Go benchmarks, one core"}
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=.", "-benchmem", "-cpu=1",
		"-count=3", "-benchtime="+b.plan.benchTime.String(),
		"./internal/limit", "./internal/lease", "./regional/limiter")
	cmd.Dir = b.Root()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return s, fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	benches, err := measure.ParseGoBench(string(out))
	if err != nil {
		return s, err
	}
	for _, bench := range benches {
		s.Rows = append(s.Rows, microRows(bench)...)
	}
	return s, nil
}

// microRows judges a benchmark by the package it is in.
func microRows(b *measure.GoBench) []table.Row {
	name := path.Base(b.Package) + " " + b.Name
	nanos := table.Row{Name: name, Unit: "ns", Value: b.Nanos}
	allocs := table.Row{Name: name, Unit: "allocs", Value: b.Allocs}
	switch {
	case strings.HasSuffix(b.Package, "internal/limit"), strings.HasSuffix(b.Package, "internal/lease"):
		nanos.Target = table.Target{Kind: table.AtMost, Bound: 100}
		allocs.Target = table.Target{Kind: table.AtMost, Bound: 0}
		return []table.Row{nanos, allocs}
	case strings.HasPrefix(b.Name, "Front"):
		perSecond := table.Row{Name: name, Unit: "decisions/s", Target: table.Target{Kind: table.AtLeast, Bound: 10e6}}
		for _, ns := range b.Nanos {
			perSecond.Value = append(perSecond.Value, 1e9/ns)
		}
		return []table.Row{perSecond}
	}
	return []table.Row{nanos}
}
