// Package report plays the runs of docs/simulator.md: what is admitted by delay, loss and lease settings, and how small limits
// are admitted. It fails if a promise was broken.
package report

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/plot"
)

// listed are the delays of the table, in ms; the plot has all.
var listed = []limit.Micros{1, 100, 150}

// table writes the sweep as Markdown: in each cell what was admitted of what one exact
// limiter admits, and in the worst period of the limit, in percent.
func table(results map[string]result) string {
	var b strings.Builder
	b.WriteString("| algorithm | delay, one way |")
	for _, s := range settings {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n| - | - |" + strings.Repeat(" - |", len(settings)) + "\n")
	for _, a := range algorithms {
		for _, d := range listed {
			fmt.Fprintf(&b, "| `%s` | %d ms |", a.String(), d)
			for _, s := range settings {
				r := results[caseName(a, d, s)]
				fmt.Fprintf(&b, " %.1f / %.0f |", 100*r.share, 100*r.worst)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// The tables in the page stand between these lines.
const (
	sweepBegins = "<!-- made by make sim -->\n"
	fewBegins   = "<!-- small limits, made by make sim -->\n"
	tableEnds   = "<!-- end -->\n"
)

// replaceTable puts another table into a page, in place of the one that begins so.
func replaceTable(page, begins, table string) string {
	before, rest, _ := strings.Cut(page, begins)
	_, after, found := strings.Cut(rest, tableEnds)
	if !found {
		panic("the page has no place for the table: " + begins + tableEnds)
	}
	return before + begins + table + tableEnds + after
}

// draw draws the sweep as SVG: a panel for each algorithm, what was admitted over the delay, a line for each
// setting.
func draw(results map[string]result) (string, error) {
	c := plot.Chart{
		Title: "Admitted, in percent of what one exact limiter admits, over the one-way delay",
		X:     plot.Axis{Title: "delay, one way (ms)"}, Y: plot.Axis{Title: "admitted (% of one exact limiter)", Unit: " %"},
	}
	for _, a := range algorithms {
		p := plot.Panel{Title: a.String()}
		for _, s := range settings {
			l := plot.Line{Name: s.name, Dashed: s.ttl+s.interval > 0} // dashes set other leases apart from losses
			for _, d := range delays {
				l.Points = append(l.Points, plot.Point{X: float64(d), Y: 100 * results[caseName(a, d, s)].share})
			}
			p.Lines = append(p.Lines, l)
		}
		c.Panels = append(c.Panels, p)
	}
	return c.SVG()
}
