package regions

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Unit is what a figure counts. The value of a figure is in the base of its unit.
type Unit int

// The units.
const (
	Count    Unit = iota // 3
	Percent              // 98%
	Rate                 // 375/s
	Duration             // 1.5s; in seconds
)

// Text writes a value with its unit.
func (u Unit) Text(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nothing"
	case u == Percent:
		return strconv.FormatFloat(v, 'f', 2, 64) + "%"
	case u == Rate:
		return strconv.FormatFloat(v, 'f', 1, 64) + "/s"
	case u == Duration:
		return time.Duration(v * float64(time.Second)).Round(100 * time.Microsecond).String()
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Bound is what a figure has to be within, the ends included.
type Bound struct {
	Least, Most *float64
	Near        []float64 // this value, give or take so many percent of it
}

func (b Bound) span() [2]float64 {
	ends := [2]float64{math.Inf(-1), math.Inf(1)}
	for i, end := range []*float64{b.Least, b.Most} {
		if end != nil {
			ends[i] = *end
		}
	}
	if len(b.Near) == 2 {
		ends = [2]float64{b.Near[0] * (1 - b.Near[1]/100), b.Near[0] * (1 + b.Near[1]/100)}
	}
	return ends
}

// Holds reports whether a value is within the bound. What cannot be measured is not.
func (b Bound) Holds(v float64) bool { return v >= b.span()[0] && v <= b.span()[1] }

func (b Bound) text(u Unit) string {
	ends := b.span()
	switch {
	case len(b.Near) == 2:
		return fmt.Sprintf("%s ± %v%%", u.Text(b.Near[0]), b.Near[1])
	case b.Least == nil:
		return "at most " + u.Text(ends[1])
	case b.Most == nil:
		return "at least " + u.Text(ends[0])
	}
	return u.Text(ends[0]) + " to " + u.Text(ends[1])
}

// Expectation is a figure and what it should be.
type Expectation struct {
	Figure `yaml:",inline"`
	Bound  `yaml:",inline"`
}
