//go:build linux

package edge

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"strings"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/table"
)

// micro runs the Go benchmarks of the pure packages and of the region's front
// cache, on one core.
func (b *bench) micro(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: "Go benchmarks, one core"}
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=.", "-benchmem", "-cpu=1",
		"-count=3", "-benchtime="+b.plan.benchTime.String(),
		"./internal/limit", "./internal/lease", "./internal/limiter/front")
	cmd.Dir = proc.Root(b)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	benches, err := measure.ParseGoBench(string(out))
	if err != nil {
		return nil, err
	}
	for _, f := range families(benches) {
		s.Rows = append(s.Rows, f.rows()...)
	}
	return []table.Section{s}, nil
}

// family is a benchmark with its cases, the parts of its name after a slash.
type family struct {
	pkg, name string
	cases     int
	slowest   *measure.GoBench // by median
	allocs    measure.Sample   // of the case with the most
}

// families groups benchmarks, in their order.
func families(benches []*measure.GoBench) []*family {
	var all []*family
	byName := map[string]*family{}
	for _, b := range benches {
		name, _, _ := strings.Cut(b.Name, "/")
		f := byName[b.Package+" "+name]
		if f == nil {
			f = &family{pkg: b.Package, name: name, slowest: b}
			byName[b.Package+" "+name] = f
			all = append(all, f)
		}
		f.cases++
		if b.Nanos.Median() > f.slowest.Nanos.Median() {
			f.slowest = b
		}
		if len(f.allocs) == 0 || b.Allocs.Median() > f.allocs.Median() {
			f.allocs = b.Allocs
		}
	}
	return all
}

// rows judges a family by the package it is in, and by its slowest case.
func (f *family) rows() []table.Row {
	name := path.Base(f.pkg) + " " + f.name
	note := ""
	if f.cases > 1 {
		note = fmt.Sprintf("the slowest of %d cases: %s", f.cases, strings.TrimPrefix(f.slowest.Name, f.name+"/"))
	}
	nanos := table.Row{Name: name, Unit: "ns", Value: f.slowest.Nanos, Note: note}
	switch {
	case strings.HasSuffix(f.pkg, "internal/limit"), strings.HasSuffix(f.pkg, "internal/lease"):
		nanos.Target = table.Target{Kind: table.AtMost, Bound: 100}
		allocs := table.Row{Name: name, Unit: "allocs", Value: f.allocs, Target: table.Target{Kind: table.AtMost, Bound: 0}}
		return []table.Row{nanos, allocs}
	case strings.HasSuffix(f.pkg, "limiter/front"):
		perSecond := table.Row{Name: name, Unit: "decisions/s", Note: note, Target: table.Target{Kind: table.AtLeast, Bound: 10e6}}
		for _, ns := range f.slowest.Nanos {
			perSecond.Value = append(perSecond.Value, 1e9/ns)
		}
		return []table.Row{perSecond}
	}
	return []table.Row{nanos}
}
