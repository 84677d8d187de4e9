// Package table judges what a benchmark measured against what it has to reach,
// and prints it. It is pure: rows in, text out.
package table

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/weirlimit/weir/test/kit/measure"
)

// Kind is how a value is compared with its bound. The zero value is None.
type Kind uint8

// The kinds.
const (
	None    Kind = iota // nothing to reach: a row for comparison
	Over                // value - base <= bound
	Times               // value / base <= bound
	AtMost              // value <= bound
	AtLeast             // value >= bound
)

// Target is what a row has to reach. The zero value asks for nothing.
type Target struct {
	Kind  Kind
	Bound float64 // in the row's unit; for Times a ratio
	// Base is what Over and Times compare with, and BaseName what the table calls
	// it; no base means the row's Peer.
	Base     measure.Sample
	BaseName string
}

// Row is one thing measured in several rounds.
type Row struct {
	Name  string
	Unit  string // of Value, such as "µs/req"
	Value measure.Sample
	// Peer is the same of what Weir is compared with, in the same rounds: bare
	// Envoy, or another service. Empty if that has no such thing.
	Peer   measure.Sample
	Target Target
	// Note is what a reader must know to trust the row, such as that the offered
	// rate was not reached.
	Note string
}

// Section is rows under one heading.
type Section struct {
	Title string
	Rows  []Row
}

// Short is by how much the row misses its target, in the target's unit; 0 if it reaches it. The
// medians decide: they are what a round costs. What was not measured, or has nothing to be
// compared with, is infinitely short.
func (r Row) Short() float64 {
	base := r.Target.Base
	if base == nil {
		base = r.Peer
	}
	figure := r.Value.Median()
	switch r.Target.Kind {
	case None:
		return 0
	case Over:
		figure -= base.Median()
	case Times:
		figure /= base.Median()
	}
	compares := r.Target.Kind == Over || r.Target.Kind == Times
	if len(r.Value) == 0 || compares && base.Median() == 0 {
		return math.Inf(1)
	}
	if r.Target.Kind == AtLeast {
		return max(r.Target.Bound-figure, 0)
	}
	return max(figure-r.Target.Bound, 0)
}

// text is what is to be reached, such as "<= bare + 8 µs/req".
func (t Target) text(unit, peer string) string {
	name := t.BaseName
	if name == "" {
		name = peer
	}
	switch t.Kind {
	case Over:
		return fmt.Sprintf("<= %s + %s %s", name, number(t.Bound), unit)
	case Times:
		return fmt.Sprintf("<= %s x %s", number(t.Bound), name)
	case AtMost:
		return fmt.Sprintf("<= %s %s", number(t.Bound), unit)
	case AtLeast:
		return fmt.Sprintf(">= %s %s", number(t.Bound), unit)
	}
	return ""
}

// verdict is how the row stands, such as "short by 1.2 µs/req".
func (r Row) verdict() string {
	unit, short := r.Unit, r.Short()
	if r.Target.Kind == Times {
		unit = "x"
	}
	switch {
	case r.Target.Kind == None:
		return ""
	case math.IsInf(short, 1):
		return "not measured"
	case short > 0:
		return strings.TrimSpace(fmt.Sprintf("short by %s %s", number(short), unit))
	}
	return "reached"
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
	columns := []string{"", "unit", "min", "median", "max", "x " + peer, "over " + peer, "target", "", "note"}
	line := func(cells ...string) {
		cells = append(cells, make([]string, len(columns)-len(cells))...)
		fmt.Fprintf(out, "| %s\t|\n", strings.Join(cells, "\t| "))
	}
	line(columns...)
	line(strings.Split(strings.Repeat("-", len(columns)), "")...)
	for _, s := range sections {
		line("**" + s.Title + "**")
		for _, r := range s.Rows {
			line(r.cells(peer)...)
		}
	}
	return out.Flush()
}

func (r Row) cells(peer string) []string {
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
	return []string{r.Name, r.Unit, least, median, most, times, over, r.Target.text(r.Unit, peer), r.verdict(), r.Note}
}

// Missed is how many rows fall short of their target.
func Missed(sections []Section) (n int) {
	for _, s := range sections {
		for _, r := range s.Rows {
			if r.Short() > 0 {
				n++
			}
		}
	}
	return n
}
