//go:build linux

package shed

import (
	"math"
	"testing"
	"time"
)

// Figures of requests of which it is known what became of them: half of each second of the step is rejected, but
// nothing that is critical, and the last rejection is 3 s after its end.
func TestFigures(t *testing.T) {
	s, p := scenarios[0], plan{pace: 1}
	all := arrivals(s, p)
	for i := range all {
		a := &all[i]
		a.outcome, a.took = served, 100*time.Millisecond
		if a.class != critical && s.loaded(a.at) && i%2 == 0 {
			a.outcome = rejected
		}
	}
	for i := range all {
		if all[i].at >= s.to+3 {
			all[i].outcome = rejected
			break
		}
	}
	f := figure(s, p, all)
	near := func(what string, got, want, within float64) {
		if math.Abs(got-want) > within {
			t.Errorf("%s: %.3f, want %.3f", what, got, want)
		}
	}
	near("critical", f.served[critical], 100, 0)
	near("bulk", f.served[bulk], 50, 2)
	near("goodput", f.goodput, 3*(15+85/2.0), 4)
	near("p99", f.p99, 100, 0)
	near("σ", f.sigma, 0, 0.02)
	near("calm", f.calm, 3, 0.1)
	near("offered at rest", total(f.seconds[2].offered), capacity*resting, 50)
	near("offered", total(f.seconds[20].offered), capacity*overload, 120)
}
