package replay

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/plot"
)

// SVG draws the requests of a log over time: how many a second were admitted and denied, on average in each step.
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
	lines := []plot.Line{{Name: "admitted"}, {Name: "denied"}}
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
		Title:  "Requests per second, admitted and denied, over time",
		X:      plot.Axis{Title: name + " after " + time.UnixMicro(int64(r.Rate.Start)).UTC().Format(time.DateTime)},
		Y:      plot.Axis{Title: "requests per second"},
		Panels: []plot.Panel{{Title: "in steps of " + time.Duration(step*1000).String(), Lines: lines}},
	}
	return c.SVG()
}

// SuggestionSVG draws the peaks of keys, sorted, with the limits that are suggested. A peak of more than four times the limit is
// drawn as that.
func SuggestionSVG(all []Suggestion) (string, error) {
	c := plot.Chart{
		Title: "The peaks of keys, sorted, and the limit that is suggested",
		X:     plot.Axis{Title: "keys, sorted by their peak", Unit: " %"}, Y: plot.Axis{Title: "largest sum of a key"},
	}
	for _, s := range all {
		if s.Limit == "" {
			continue
		}
		most, n := max(4*s.Units, 1), len(s.Peaks)
		peaks := plot.Line{Name: "peaks of keys", Points: []plot.Point{{}}}
		for i := range 1001 {
			peak := s.Peaks[min(i*n/1000, n-1)]
			peaks.Points = append(peaks.Points, plot.Point{X: float64(i) / 10, Y: float64(min(peak, most))})
		}
		title := s.Rule + ": " + s.Limit
		if s.Largest > most {
			title += fmt.Sprintf(", larger peaks drawn at %d", most)
		}
		c.Panels = append(c.Panels, plot.Panel{Title: title, Lines: []plot.Line{peaks, {
			Name: "suggested limit", Dashed: true, Points: []plot.Point{{X: 0, Y: float64(s.Units)}, {X: 100, Y: float64(s.Units)}},
		}}})
	}
	if len(c.Panels) == 0 {
		return "", fmt.Errorf("no limit is suggested, so there is nothing to draw")
	}
	return c.SVG()
}
