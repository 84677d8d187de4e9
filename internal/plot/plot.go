// Package plot draws line charts as SVG, readable on light and dark pages. The same chart gives the same text.
package plot

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Chart has panels side by side that share their axes. These begin and end at a tick and hold all points; where the
// vertical one does not begin at 0, its title states that.
type Chart struct {
	Title  string // of the whole, for those who do not see it
	X, Y   Axis
	Panels []Panel // which have the same lines in the same order: the legend is of the first
}

// Axis is what an axis shows.
type Axis struct {
	Title string
	Unit  string // behind the number of each tick: " %"
}

// Panel is a set of lines in one pair of axes.
type Panel struct {
	Title string
	Lines []Line
}

// Line joins its points in their order.
type Line struct {
	Name   string
	Dashed bool // sets it apart; of more than six lines some have the same colour
	Points []Point
}

// Point has finite numbers.
type Point struct{ X, Y float64 }

const ( // in pixels
	width, height  = 1130.0, 260.0 // of all panels
	left, top, gap = 60.0, 40.0, 70.0
	row, perRow    = 22.0, 4 // of the legend
)

// style has a colour of text for either kind of page; those of the lines show on both.
const style = `<style>
  text { font: 12px sans-serif; fill: #24292f }
  .axis { stroke: #6e7781; fill: none }
  .grid { stroke: #6e7781; stroke-opacity: .25; fill: none }
  @media (prefers-color-scheme: dark) { text { fill: #d0d7de } }
</style>
`

var colours = []string{"#2da44e", "#bf8700", "#d4691e", "#cf222e", "#0969da", "#8250df"}

// SVG draws the chart. The error names a point that is not finite; a chart without points is one, too.
func (c *Chart) SVG() (string, error) {
	x, y, err := c.scales()
	if err != nil {
		return "", err
	}
	legend := c.Panels[0].Lines
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>%s</title>\n%s",
		left+width+20, top+height+60+float64((len(legend)+perRow-1)/perRow)*row, html.EscapeString(c.Title), style)
	y.begin, y.length = top+height, -height
	title := c.Y.Title
	if y.first > 0 {
		title += ", from " + y.label(0) + c.Y.Unit
	}
	fmt.Fprintf(&b, "<g transform=\"translate(14 %.1f) rotate(-90)\">", top+height/2)
	text(&b, 0, 0, "middle", title)
	b.WriteString("</g>\n")
	x.length = (width+gap)/float64(len(c.Panels)) - gap
	for i, p := range c.Panels {
		x.begin = left + float64(i)*(x.length+gap)
		text(&b, x.begin+x.length/2, top-16, "middle", p.Title)
		c.axes(&b, x, y)
		for j, l := range p.Lines {
			points := make([]string, len(l.Points))
			for k, q := range l.Points {
				points[k] = fmt.Sprintf("%.1f,%.1f", x.at(q.X), y.at(q.Y))
			}
			fmt.Fprintf(&b, "<polyline points=\"%s\" fill=\"none\" %s/>\n", strings.Join(points, " "), stroke(j, l))
		}
	}
	for i, l := range legend {
		ex, ey := left+float64(i%perRow)*width/perRow, top+height+62+float64(i/perRow)*row
		fmt.Fprintf(&b, "<path d=\"M%.1f %.1fh28\" %s/>\n", ex, ey-4, stroke(i, l))
		text(&b, ex+36, ey, "start", l.Name)
	}
	return b.String() + "</svg>\n", nil
}

// axes draws those of one panel.
func (c *Chart) axes(b *strings.Builder, x, y scale) {
	right, bottom := x.begin+x.length, top+height
	for i := range y.steps + 1 {
		tick := y.at(y.tick(i))
		fmt.Fprintf(b, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", x.begin, tick, right)
		text(b, x.begin-8, tick+4, "end", y.label(i)+c.Y.Unit)
	}
	for i := range x.steps + 1 {
		tick := x.at(x.tick(i))
		fmt.Fprintf(b, "<path class=\"axis\" d=\"M%.1f %.1fv5\"/>\n", tick, bottom)
		text(b, tick, bottom+20, "middle", x.label(i)+c.X.Unit)
	}
	fmt.Fprintf(b, "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", x.begin, top, bottom, right)
	text(b, x.begin+x.length/2, bottom+38, "middle", c.X.Title)
}

// scale has ticks from a multiple of a step on, and where they are.
type scale struct {
	first, steps        int     // in steps
	step, begin, length float64 // the latter in pixels
}

// scales are those of all points.
func (c *Chart) scales() (x, y scale, err error) {
	low, high := Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	for _, p := range c.Panels {
		for _, l := range p.Lines {
			for _, q := range l.Points {
				if !(math.Abs(q.X)+math.Abs(q.Y) < 1e300) { // or it is no number
					return x, y, fmt.Errorf("plot: %s, %s: a point at %g, %g", p.Title, l.Name, q.X, q.Y)
				}
				low, high = Point{min(low.X, q.X), min(low.Y, q.Y)}, Point{max(high.X, q.X), max(high.Y, q.Y)}
			}
		}
	}
	if low.X > high.X {
		return x, y, fmt.Errorf("plot: %s: there is no point", c.Title)
	}
	return newScale(low.X, high.X), newScale(low.Y, high.Y), nil
}

// newScale has about seven ticks, at multiples of 1, 2, 2.5 or 5; fewer around values that a float64 hardly tells apart.
func newScale(low, high float64) scale {
	span := max(high-low, math.Abs(low)*1e-6, math.Abs(high)*1e-6)
	if span < 1e-300 {
		span = 1
	}
	power := math.Pow(10, math.Floor(math.Log10(span/6)))
	step := 10 * power
	for _, m := range []float64{5, 2.5, 2, 1} {
		if m*power >= span/6 {
			step = m * power
		}
	}
	first := math.Floor(low / step)
	return scale{first: int(first), steps: max(1, int(math.Ceil(high/step)-first)), step: step}
}

func (s *scale) tick(i int) float64 { return float64(s.first+i) * s.step }

func (s *scale) at(v float64) float64 {
	return s.begin + (v/s.step-float64(s.first))/float64(s.steps)*s.length
}

// label is the number of a tick, with the digits that its step has.
func (s *scale) label(i int) string {
	_, digits, _ := strings.Cut(strconv.FormatFloat(s.step, 'f', -1, 64), ".")
	return strconv.FormatFloat(s.tick(i), 'f', len(digits), 64)
}

func stroke(i int, l Line) string {
	dashes := ""
	if l.Dashed {
		dashes = ` stroke-dasharray="5 4"`
	}
	return fmt.Sprintf("stroke=\"%s\" stroke-width=\"2\"%s", colours[i%len(colours)], dashes)
}

func text(b *strings.Builder, x, y float64, anchor, s string) {
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, html.EscapeString(s))
}
