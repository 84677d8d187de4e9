// Package table prints what a benchmark measured. It is pure: rows in, text out.
package table

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/weirlimit/weir/test/kit/measure"
)

// Row is one thing measured in several rounds.
type Row struct {
	Name  string
	Unit  string // of Value, such as "µs/req"
	Value measure.Sample
	// Peer is the same of what Weir is compared with, in the same rounds: bare
	// Envoy, or another service. Empty if that has no such thing.
	Peer measure.Sample
	// Note is what a reader must know to trust the row, such as that the offered
	// rate was not reached.
	Note string
}

// Section is rows under one heading.
type Section struct {
	Title string
	Rows  []Row
}

// number prints three significant digits and no exponent.
func number(x float64) string {
	a := math.Abs(x)
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "-"
	case a >= 1e6:
		return fmt.Sprintf("%.3g M", x/1e6)
	case a >= 100 || x == math.Trunc(x):
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// Print writes the sections as one Markdown table, its columns aligned. peer is a
// short name for what rows are compared with: by the minima, then by the medians.
func Print(w io.Writer, peer string, sections []Section) error {
	out := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	columns := []string{"", "unit", "min", "median", "max", "x " + peer, "over " + peer, "note"}
	line := func(cells ...string) {
		cells = append(cells, make([]string, len(columns)-len(cells))...)
		fmt.Fprintf(out, "| %s\t|\n", strings.Join(cells, "\t| "))
	}
	line(columns...)
	line(strings.Split(strings.Repeat("-", len(columns)), "")...)
	for _, s := range sections {
		line("**" + s.Title + "**")
		for _, r := range s.Rows {
			line(r.cells()...)
		}
	}
	return out.Flush()
}

func (r Row) cells() []string {
	least, median, most, times, over := "-", "-", "-", "", ""
	if len(r.Value) > 0 {
		least, median, most = number(r.Value.Min()), number(r.Value.Median()), number(r.Value.Max())
	}
	if len(r.Peer) > 0 {
		if r.Peer.Min() > 0 {
			times = fmt.Sprintf("%.2f / %.2f", r.Value.Min()/r.Peer.Min(), r.Value.Median()/r.Peer.Median())
		}
		over = fmt.Sprintf("%.1f / %.1f", r.Value.Min()-r.Peer.Min(), r.Value.Median()-r.Peer.Median())
	}
	return []string{r.Name, r.Unit, least, median, most, times, over, r.Note}
}
