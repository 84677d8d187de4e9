package plot

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// Two panels, of which the second has the smallest point, have the same axes.
func TestSVG(t *testing.T) {
	c := Chart{Title: "a & b", X: Axis{Title: "time", Unit: " s"}, Y: Axis{Title: "rate"}, Panels: []Panel{
		{"one <1>", []Line{{"up", false, []Point{{0, 60}, {30, 100}}}, {"down", true, []Point{{0, 90}, {60, 70}}}}},
		{"two", []Line{{"up", false, []Point{{0, 52}, {60, 52}}}, {"down", true, nil}}},
	}}
	golden.Same(t, "testdata/two.svg", fatal.Get(c.SVG())(t))
}

// A point that is no number, or without end, is an error that names it, and so is a chart without points.
func TestWrong(t *testing.T) {
	for _, wrong := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		c := Chart{Panels: []Panel{{"a", []Line{{"b", false, []Point{{1, 2}, {3, wrong}}}}}}}
		if svg, err := c.SVG(); err == nil || svg != "" || err.Error() != fmt.Sprintf("plot: a, b: a point at 3, %g", wrong) {
			t.Errorf("%g: %v", wrong, err)
		}
	}
	for _, panels := range [][]Panel{nil, {{Title: "a"}}, {{"a", []Line{{Name: "b"}}}}} {
		if _, err := (&Chart{Title: "c", Panels: panels}).SVG(); err == nil || err.Error() != "plot: c: there is no point" {
			t.Errorf("%v: %v", panels, err)
		}
	}
}
