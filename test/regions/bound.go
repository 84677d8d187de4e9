package regions

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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

// value reads a value with its unit.
func (u Unit) value(text string) (float64, error) {
	wrong := fmt.Errorf("%q is not %s", text, [...]string{"a number", "a percentage", "a number per second, N/s", "a time"}[u])
	number, found := text, true
	switch u {
	case Percent:
		number, found = strings.CutSuffix(text, "%")
	case Rate:
		number, found = strings.CutSuffix(text, "/s")
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, wrong
		}
		return d.Seconds(), nil
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !found {
		return 0, wrong
	}
	return v, nil
}

// Bound is what a figure has to be within, the ends included. The zero value is exactly 0.
type Bound struct {
	Least, Most float64
	Text        string // as the script has it
}

// Holds reports whether a value is within the bound. What cannot be measured is not.
func (b Bound) Holds(v float64) bool { return v >= b.Least && v <= b.Most }

// readBound reads the bound of an expectation.
func readBound(text string, u Unit) (Bound, error) {
	b := Bound{math.Inf(-1), math.Inf(1), text}
	words := strings.Fields(text)
	var err error
	switch {
	case len(words) == 1:
		b.Least, err = u.value(words[0])
		b.Most = b.Least
	case len(words) == 3 && words[0] == "at" && words[1] == "most":
		b.Most, err = u.value(words[2])
	case len(words) == 3 && words[0] == "at" && words[1] == "least":
		b.Least, err = u.value(words[2])
	case len(words) == 3 && words[1] == "to":
		b.Least, b.Most, err = u.span(words[0], words[2])
	case len(words) == 3 && words[1] == "±":
		var middle, part float64
		if middle, err = u.value(words[0]); err == nil {
			part, err = Percent.value(words[2])
		}
		b.Least, b.Most = middle*(1-part/100), middle*(1+part/100)
	default:
		err = fmt.Errorf("%q is no bound", text)
	}
	return b, err
}

func (u Unit) span(from, to string) (least, most float64, err error) {
	if least, err = u.value(from); err == nil {
		most, err = u.value(to)
	}
	if err == nil && most < least {
		err = fmt.Errorf("%s to %s is empty", from, to)
	}
	return least, most, err
}
