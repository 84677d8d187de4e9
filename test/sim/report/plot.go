package report

import (
	"github.com/weirlimit/weir/internal/plot"
)

// draw draws the sweep as SVG: a panel for each algorithm, what was admitted over the delay, a line for each
// setting.
func draw(results map[string]result) (string, error) {
	c := plot.Chart{
		Title: "Admitted, in percent of what one exact limiter admits, over the one-way delay",
		X:     plot.Axis{Title: "delay, one way (ms)"}, Y: plot.Axis{Title: "admitted (% of one exact limiter)", Unit: " %"},
	}
	for _, a := range algorithms {
		p := plot.Panel{Title: a.String()}
		for _, s := range settings {
			l := plot.Line{Name: s.name, Dashed: s.ttl+s.interval > 0} // dashes set other leases apart from losses
			for _, d := range delays {
				l.Points = append(l.Points, plot.Point{X: float64(d), Y: 100 * results[caseName(a, d, s)].share})
			}
			p.Lines = append(p.Lines, l)
		}
		c.Panels = append(c.Panels, p)
	}
	return c.SVG()
}
