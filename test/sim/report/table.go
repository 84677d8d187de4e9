// Package report plays the runs of docs/simulator.md: what is admitted by delay, loss and lease settings, and how small limits
// are admitted. It fails if a promise was broken.
package report

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
)

// listed are the delays of the table, in ms; the plot has all.
var listed = []limit.Micros{1, 50, 100, 150}

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
