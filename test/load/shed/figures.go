//go:build linux

package shed

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/table"
)

// figures are what one scenario measured of one system. They are of the time of the load, if nothing else is
// stated.
type figures struct {
	served   [classes]float64 // per cent of what was offered
	goodput  float64          // served in time, per cent of what was offered and could be done
	p50, p99 float64          // of what was served, in ms
	sigma    float64          // of the rejected share from second to second, once settled
	calm     float64          // seconds from the end of the load to the last rejection
	late     float64          // the driver at the 99th percentile of all requests, in ms
	seconds  []second
}

// second counts the requests that were due in a second of a full run.
type second struct {
	offered, good [classes]float64
	rejected      float64
}

func figure(s *scenario, p plan, all []sample) figures {
	f := figures{seconds: make([]second, int(lasts))}
	var took, late []float64
	for _, a := range all {
		late = append(late, a.late.Seconds()*1000)
		second := &f.seconds[int(a.at)]
		second.offered[a.class]++
		switch a.outcome {
		case served:
			second.good[a.class]++
			if s.loaded(a.at) {
				took = append(took, a.took.Seconds()*1000)
			}
		case rejected:
			second.rejected++
			f.calm = max(f.calm, (a.at-s.to)/p.pace)
		}
	}
	var sum second
	var possible float64
	var shares []float64
	for i, second := range f.seconds {
		at, offered := float64(i), total(second.offered)
		if !s.loaded(at) {
			continue
		}
		for c := range classes {
			sum.offered[c] += second.offered[c]
			sum.good[c] += second.good[c]
		}
		possible += min(offered, serves(s, at)/p.pace)
		if s.settled > 0 && at >= s.settled {
			shares = append(shares, second.rejected/max(offered, 1))
		}
	}
	for c := range classes {
		f.served[c] = 100 * sum.good[c] / sum.offered[c]
	}
	f.goodput = 100 * total(sum.good) / possible
	f.p50, f.p99, f.late, f.sigma = percentile(took, 0.5), percentile(took, 0.99), percentile(late, 0.99), deviation(shares)
	return f
}

func total(by [classes]float64) (sum float64) {
	for _, n := range by {
		sum += n
	}
	return sum
}

// percentile is the smallest value that a part of all does not exceed; 0 if there is none.
func percentile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(part*float64(len(values)-1))]
}

func deviation(values []float64) float64 {
	var sum, squares float64
	for _, v := range values {
		sum, squares = sum+v, squares+v*v
	}
	n := max(float64(len(values)), 1)
	return math.Sqrt(max(squares/n-sum*sum/n/n, 0))
}

type row struct {
	name, unit string
	of         func(figures) float64
	least      bool // less is better
}

func share(c class) func(figures) float64 { return func(f figures) float64 { return f.served[c] } }

func rows(s *scenario) []row {
	all := []row{
		{"critical served", "%", share(critical), false},
		{"normal served", "%", share(normal), false},
		{"low served", "%", share(low), false},
		{"bulk served", "%", share(bulk), false},
		{"goodput ÷ what could be done", "%", func(f figures) float64 { return f.goodput }, false},
		{"p50 of what was served", "ms", func(f figures) float64 { return f.p50 }, true},
		{"p99 of what was served", "ms", func(f figures) float64 { return f.p99 }, true},
		{"nothing rejected after", "s", func(f figures) float64 { return f.calm }, true},
		{"driver late, p99", "ms", func(f figures) float64 { return f.late }, true},
	}
	if s.settled > 0 {
		all = append(all, row{"σ of the rejected share", "", func(f figures) float64 { return f.sigma }, true})
	}
	return all
}

// section is the table of a scenario: Weir's figures, beside the better of those of Envoy's filters. The note
// has what each of the others measured.
func section(s *scenario, by map[string]figures) table.Section {
	sec := table.Section{Title: s.title}
	for _, r := range rows(s) {
		best := measure.Sample{r.of(by[peers[0]]), r.of(by[peers[1]])}
		peer := best.Max()
		if r.least {
			peer = best.Min()
		}
		var others []string
		for _, name := range systems[:len(systems)-1] {
			others = append(others, fmt.Sprintf("%s %.4g", name, r.of(by[name])))
		}
		sec.Rows = append(sec.Rows, table.Row{Name: r.name, Unit: r.unit, Value: measure.Sample{r.of(by[weir])},
			Peer: measure.Sample{peer}, Note: strings.Join(others, ", ")})
	}
	return sec
}
