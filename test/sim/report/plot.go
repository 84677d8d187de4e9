package main

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
)

// The plot: a panel for each algorithm, what was admitted over the delay, a line for each
// setting. Sizes are in pixels.
const (
	panelWidth, panelHeight = 330.0, 260.0
	left, top, gap          = 60.0, 40.0, 70.0
	legendHeight            = 60.0
	lowest, highest         = 60.0, 102.0 // percent
	longest                 = 150.0       // ms
)

// style makes text and axes readable on light and on dark pages. The lines have a colour
// that shows on both.
const style = `<style>
  text { font: 12px sans-serif; fill: #24292f }
  .axis { stroke: #6e7781; fill: none }
  .grid { stroke: #6e7781; stroke-opacity: .25; fill: none }
  @media (prefers-color-scheme: dark) { text { fill: #d0d7de } }
</style>
`

var colours = []string{"#2da44e", "#bf8700", "#d4691e", "#cf222e", "#0969da", "#8250df"}

// plot draws the sweep as SVG.
func plot(results map[string]result) string {
	width := left + float64(len(algorithms))*(panelWidth+gap) - gap + 20
	height := top + panelHeight + 50 + legendHeight
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n", width, height)
	b.WriteString("<title>Admitted, in percent of what one exact limiter admits, over the one-way delay</title>\n" + style)
	for i, a := range algorithms {
		panel(&b, results, a, left+float64(i)*(panelWidth+gap))
	}
	legend(&b, top+panelHeight+62)
	b.WriteString("</svg>\n")
	return b.String()
}

func panel(b *strings.Builder, results map[string]result, a limit.Algorithm, x float64) {
	at := func(delay, percent float64) (float64, float64) {
		return x + delay/longest*panelWidth, top + (highest-max(percent, lowest))/(highest-lowest)*panelHeight
	}
	line := func(class string, x1, y1, x2, y2 float64) {
		fmt.Fprintf(b, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class, x1, y1, x2, y2)
	}
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x+panelWidth/2, top-16, a.String())
	for percent := lowest; percent <= 100; percent += 10 {
		_, y := at(0, percent)
		line("grid", x, y, x+panelWidth, y)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.0f %%</text>\n", x-8, y+4, percent)
	}
	for delay := 0.0; delay <= longest; delay += 25 {
		tick, y := at(delay, lowest)
		line("axis", tick, y, tick, y+5)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", tick, y+20, delay)
	}
	line("axis", x, top, x, top+panelHeight)
	line("axis", x, top+panelHeight, x+panelWidth, top+panelHeight)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">delay, one way (ms)</text>\n", x+panelWidth/2, top+panelHeight+38)
	if x == left {
		y := top + panelHeight/2
		fmt.Fprintf(b, "<text transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">admitted (%% of one exact limiter)</text>\n", y)
	}
	for i, s := range settings {
		points := make([]string, len(delays))
		for j, d := range delays {
			px, py := at(float64(d), 100*results[caseName(a, d, s)].share)
			points[j] = fmt.Sprintf("%.1f,%.1f", px, py)
		}
		fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", strings.Join(points, " "), colours[i], dashes(s))
	}
}

// dashes sets lines of other lease settings apart from those of losses.
func dashes(s setting) string {
	if s.ttl+s.interval > 0 {
		return ` stroke-dasharray="5 4"`
	}
	return ""
}

func legend(b *strings.Builder, y float64) {
	for i, s := range settings {
		x := left + float64(i%3)*240
		at := y + float64(i/3)*22
		fmt.Fprintf(b, "<path d=\"M%.1f %.1fh28\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", x, at-4, colours[i], dashes(s))
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x+36, at, s.name)
	}
}
