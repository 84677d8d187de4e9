package report

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/test/sim"
)

// The runs of a client that sends a few requests once.
var (
	fewRegions = []int{1, 3}
	fewLimits  = []int64{20, 50, 200, 1000}
)

// fewFigures are what the tables show of the runs.
var fewFigures = []struct {
	title string
	of    func(r sim.FewResult) string
}{
	{"False rejections", func(r sim.FewResult) string { return fmt.Sprint(r.False) }},
	{"Requests that wait for an answer, in percent", func(r sim.FewResult) string { return fmt.Sprint(100 * r.Waited / r.Requests) }},
}

// fewTables writes a table of each figure as Markdown: with consistency: leased, and in bold without consistency where that
// is another figure.
func fewTables() (string, error) {
	rows := make([]strings.Builder, len(fewFigures))
	for _, regions := range fewRegions {
		for _, units := range fewLimits {
			for i := range rows {
				fmt.Fprintf(&rows[i], "| %d | %d |", regions, units)
			}
			for _, order := range sim.Orders {
				f := sim.Few{Regions: regions, Limit: units, Percent: 100, Order: order}
				byDefault, err := f.Play()
				if err != nil {
					return "", err
				}
				leased := byDefault
				if f.Exact() {
					f.Leased = true
					if leased, err = f.Play(); err != nil {
						return "", err
					}
				}
				for i, figure := range fewFigures {
					rows[i].WriteString(" " + figure.of(leased))
					if now := figure.of(byDefault); now != figure.of(leased) {
						rows[i].WriteString(" → **" + now + "**")
					}
					rows[i].WriteString(" |")
				}
			}
			for i := range rows {
				rows[i].WriteString("\n")
			}
		}
	}
	var b strings.Builder
	for i, figure := range fewFigures {
		fmt.Fprintf(&b, "%s:\n\n| regions | limit | %s |\n| - | - |%s\n%s\n", figure.title, strings.Join(sim.Orders, " | "), strings.Repeat(" - |", len(sim.Orders)), &rows[i])
	}
	return b.String(), nil
}
