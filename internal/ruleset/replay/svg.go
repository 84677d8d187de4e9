package replay

import (
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/plot"
)

// SVG draws the requests of a log over time: how many a second were admitted and rejected, on average in each step.
func (r *Report) SVG() (string, error) {
	step := r.Rate.Step
	unit, name := limit.Second, "seconds"
	for _, larger := range []struct {
		unit limit.Micros
		name string
	}{{limit.Minute, "minutes"}, {limit.Hour, "hours"}, {limit.Day, "days"}} {
		if limit.Micros(len(r.Rate.Steps))*step > 3*larger.unit {
			unit, name = larger.unit, larger.name
		}
	}
	lines := []plot.Line{{Name: "admitted"}, {Name: "rejected"}}
	for i := range lines {
		for n, of := range r.Rate.Steps {
			rate := float64(of[i]) * float64(limit.Second) / float64(step)
			for _, end := range []int{n, n + 1} {
				lines[i].Points = append(lines[i].Points, plot.Point{X: float64(end) * float64(step) / float64(unit), Y: rate})
			}
		}
		lines[i].Points = append(lines[i].Points, plot.Point{X: lines[i].Points[2*len(r.Rate.Steps)-1].X}) // the axis begins at 0
	}
	c := plot.Chart{
		Title:  "Requests per second, admitted and rejected, over time",
		X:      plot.Axis{Title: name + " after " + time.UnixMicro(int64(r.Rate.Start)).UTC().Format(time.DateTime)},
		Y:      plot.Axis{Title: "requests per second"},
		Panels: []plot.Panel{{Title: "in steps of " + time.Duration(step*1000).String(), Lines: lines}},
	}
	return c.SVG()
}
