//go:build linux

// Package shed measures a shed rule beside what Envoy itself has against overload, its filters adaptive_concurrency
// and admission_control, and beside an Envoy without: each in turn has the same requests and an upstream
// of its own that slows down under load. It needs what `make setup` and `make build` leave.
package shed

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/internal/plot"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// quickPace is how much faster scenarios go by where no figures are wanted.
const quickPace = 10

type bench struct {
	plan
	*rig.Rig
	plots   string // directory; empty: none are drawn
	systems []*system
}

// Run runs the benchmark and returns the table: with an error, what there is of it.
func Run(ctx context.Context, opts rig.Options) ([]table.Section, error) {
	b := &bench{plan: plan{pace: 1}, plots: opts.Plots}
	if opts.Quick {
		b.pace = quickPace
	}
	return rig.Measure(ctx, opts, func(r *rig.Rig) (parts []rig.Part) {
		b.Rig = r
		b.systems = make([]*system, len(systems))
		b.Together(len(systems), func(i int) { b.systems[i] = start(r, systems[i]) })
		for _, s := range scenarios {
			parts = append(parts, rig.Part{Name: s.name, Run: func() []table.Section { return b.play(s) }})
		}
		return parts
	})
}

func (b *bench) play(s *scenario) []table.Section {
	by := map[string]figures{}
	for i, name := range systems {
		by[name] = b.measure(s, b.systems[i])
	}
	if b.plots != "" {
		b.Must(draw(s, b.plan, by, filepath.Join(b.plots, "shed-"+s.name+".svg")))
	}
	return []table.Section{section(s, by)}
}

func (b *bench) measure(s *scenario, on *system) figures {
	begin := time.Now()
	on.upstream.begin(s, b.plan, begin)
	all := drive(b.Ctx, on.Addr, s, b.plan, begin)
	b.Must(b.Ctx.Err())
	return figure(s, b.plan, all)
}

// draw draws a scenario into a file: for each system what was offered and served in each second.
func draw(s *scenario, p plan, by map[string]figures, file string) error {
	c := plot.Chart{Title: s.title + ": requests per second over time", X: plot.Axis{Title: "time", Unit: " s"},
		Y: plot.Axis{Title: "requests per second"}}
	for _, name := range systems {
		lines := []plot.Line{{Name: "offered", Dashed: true}, {Name: "served (goodput)"}, {Name: "critical offered", Dashed: true}, {Name: "critical served"}}
		for i, second := range by[name].seconds {
			for j, n := range []float64{total(second.offered), total(second.good), second.offered[critical], second.good[critical]} {
				lines[j].Points = append(lines[j].Points, plot.Point{X: float64(i), Y: n * p.pace})
			}
		}
		c.Panels = append(c.Panels, plot.Panel{Title: name, Lines: lines})
	}
	svg, err := c.SVG()
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(svg), 0o666)
}
