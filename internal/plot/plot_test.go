package plot

import (
	"encoding/xml"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/test/kit/fatal"
)

var update = flag.Bool("update", false, "write testdata/two.svg anew")

// Two panels, of which the second has the smallest point, have the same axes.
func TestSVG(t *testing.T) {
	c := Chart{Title: "a & b", X: Axis{Title: "time", Unit: " s"}, Y: Axis{Title: "rate"}, Panels: []Panel{
		{"one <1>", []Line{{"up", false, []Point{{0, 60}, {30, 100}}}, {"down", true, []Point{{0, 90}, {60, 70}}}}},
		{"two", []Line{{"up", false, []Point{{0, 52}, {60, 52}}}, {"down", true, nil}}},
	}}
	got := fatal.Get(c.SVG())(t)
	const file = "testdata/two.svg"
	if *update {
		fatal.If(t, os.WriteFile(file, []byte(got), 0o666))
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("%s is another plot (%v)", file, err)
	}
}

// What the ticks of an axis are, by the smallest and the largest point.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{16.2, 100, "0 20 40 60 80 100"},
		{61, 99.5, "60 70 80 90 100"},
		{1, 150, "0 25 50 75 100 125 150"},
		{0, 1, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{-3, 12, "-5.0 -2.5 0.0 2.5 5.0 7.5 10.0 12.5"},
		{0, 0, "0.0 0.2"},
		{1000, 1000, "1000.0000 1000.0002"},
	} {
		s, got := newScale(c.low, c.high), ""
		for i := range s.steps + 1 {
			got += " " + s.label(i)
		}
		if got[1:] != c.want {
			t.Errorf("%g to %g: %s, want %s", c.low, c.high, got[1:], c.want)
		}
	}
}

// Whatever the points are, all are within the axes, there are some ticks and not many, and it is XML.
func TestAllPointsAreWithinTheAxes(t *testing.T) {
	drawn := regexp.MustCompile(`[-0-9.]+,[-0-9.]+`)
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-1e299, 1e299)
		if rapid.Bool().Draw(t, "near") {
			number = rapid.Float64Range(-1000, 1000)
		}
		var c Chart
		for range rapid.IntRange(1, 3).Draw(t, "panels") {
			l := Line{Name: rapid.StringMatching(`[a-z<&"]*`).Draw(t, "name")}
			for range rapid.IntRange(1, 5).Draw(t, "points") {
				l.Points = append(l.Points, Point{number.Draw(t, "x"), number.Draw(t, "y")})
			}
			c.Panels = append(c.Panels, Panel{Lines: []Line{l}})
		}
		svg := fatal.Get(c.SVG())(t)
		fatal.If(t, xml.Unmarshal([]byte(svg), new(struct{})))
		for _, at := range drawn.FindAllString(svg, -1) {
			xs, ys, _ := strings.Cut(at, ",")
			x, _ := strconv.ParseFloat(xs, 64)
			y, _ := strconv.ParseFloat(ys, 64)
			if x < left || x > left+width || y < top || y > top+height {
				t.Fatalf("a point at %s:\n%s", at, svg)
			}
		}
		if n := strings.Count(svg, `class="grid"`) / len(c.Panels); n < 2 || n > 9 {
			t.Fatalf("%d ticks:\n%s", n, svg)
		}
	})
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
