// Package table judges what a benchmark measured against what it has to reach,
// and prints it. It is pure: rows in, text out.
package table

import (
	"fmt"
	"math"

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

// Comparison is how a row stands to its target.
type Comparison struct {
	// Figure is what is held against the bound, from the medians: the difference,
	// the ratio or the value. 0 without target.
	Figure float64
	// Short is by how much the figure misses the bound, in its unit; 0 if reached.
	Short float64
	// ShortMin is the same from the minima.
	ShortMin float64
}

// Reached reports whether the medians are within the bound.
func (c Comparison) Reached() bool { return c.Short == 0 }

// Judge compares the row with its target. The medians decide: they are what a
// round costs. The minima are beside them because on a busy machine they repeat
// better.
func (r Row) Judge() Comparison {
	base := r.Target.Base
	if base == nil {
		base = r.Peer
	}
	var c Comparison
	if len(r.Value) == 0 && r.Target.Kind != None {
		return Comparison{Figure: math.NaN(), Short: math.Inf(1), ShortMin: math.Inf(1)}
	}
	c.Figure, c.Short = r.Target.judge(r.Value.Median(), base.Median())
	_, c.ShortMin = r.Target.judge(r.Value.Min(), base.Min())
	return c
}

func (t Target) judge(value, base float64) (figure, short float64) {
	switch t.Kind {
	case Over:
		figure = value - base
	case Times:
		figure = ratio(value, base)
	case AtMost, AtLeast:
		figure = value
	default:
		return 0, 0
	}
	if math.IsNaN(figure) {
		return figure, math.Inf(1) // nothing to compare with is not a success
	}
	if t.Kind == AtLeast {
		return figure, max(t.Bound-figure, 0)
	}
	return figure, max(figure-t.Bound, 0)
}

// ratio is NaN when there is no base.
func ratio(value, base float64) float64 {
	if base == 0 {
		return math.NaN()
	}
	return value / base
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

// text is how the row stands, such as "short by 1.2 µs/req".
func (c Comparison) text(t Target, unit string) string {
	if t.Kind == Times {
		unit = "x"
	}
	switch {
	case t.Kind == None:
		return ""
	case math.IsInf(c.Short, 1):
		return "not measured"
	case c.Short > 0 && c.ShortMin == 0:
		return fmt.Sprintf("short by %s %s (minima: reached)", number(c.Short), unit)
	case c.Short > 0:
		return fmt.Sprintf("short by %s %s", number(c.Short), unit)
	case c.ShortMin > 0:
		return fmt.Sprintf("reached (minima: short by %s %s)", number(c.ShortMin), unit)
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
