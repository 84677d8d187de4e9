package regions

import (
	"fmt"
	"math"
)

// Unit is what the values of a figure are in, as it is printed behind them.
type Unit string

// The units.
const (
	Count   Unit = ""
	Percent Unit = " %"
	Rate    Unit = "/s"
	Seconds Unit = " s"
)

// Text writes a value with its unit.
func (u Unit) Text(v float64) string { return fmt.Sprintf("%.4g%s", v, u) }

// Bound is what a figure has to be within, the ends included.
type Bound struct {
	Least, Most *float64
	Near        []float64 // this value, give or take so many percent of it
}

func (b Bound) span() (least, most float64) {
	least, most = math.Inf(-1), math.Inf(1)
	if b.Least != nil {
		least = *b.Least
	}
	if b.Most != nil {
		most = *b.Most
	}
	if len(b.Near) == 2 {
		least, most = b.Near[0]*(1-b.Near[1]/100), b.Near[0]*(1+b.Near[1]/100)
	}
	return least, most
}

// Holds reports whether a value is within the bound. What cannot be measured is not.
func (b Bound) Holds(v float64) bool {
	least, most := b.span()
	return v >= least && v <= most
}

func (b Bound) text(u Unit) string {
	least, most := b.span()
	switch {
	case math.IsInf(least, -1):
		return "at most " + u.Text(most)
	case math.IsInf(most, 1):
		return "at least " + u.Text(least)
	}
	return u.Text(least) + " to " + u.Text(most)
}

// Expectation is a figure and what it should be.
type Expectation struct {
	Figure `yaml:",inline"`
	Bound  `yaml:",inline"`
}
