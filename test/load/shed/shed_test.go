//go:build linux

package shed

import (
	"math"
	"testing"
	"time"
)

// A queue does not get shorter when clients go: three times as many requests as a replica can do wait longer and
// longer, and then are refused.
func TestReplicaSlowsDownUnderLoad(t *testing.T) {
	r, now := &replica{}, time.Unix(0, 0)
	r.reset(nil, false, 1)
	const each = service / servers / 3
	var last time.Duration
	refusals := 0
	for range 1000 {
		now = now.Add(each)
		waits, _, _, ok := r.enqueue(now)
		if !ok {
			refusals++
			continue
		}
		last = waits
	}
	if last < longest-2*service || refusals < 300 {
		t.Errorf("in the end requests wait for %v, and %d of 1000 were refused", last, refusals)
	}
	if waits, takes, _, ok := r.enqueue(now.Add(time.Minute)); waits != 0 || takes < service/2 || !ok {
		t.Errorf("after a rest: waits %v, takes %v, %v", waits, takes, ok)
	}
}

// Figures of requests of which it is known what became of them: half of each second of the step is refused, but
// nothing that is critical, and the last refusal is 3 s after its end.
func TestFigures(t *testing.T) {
	s, p := scenarios[0], plan{pace: 1}
	all := arrivals(s, p)
	for i := range all {
		a := &all[i]
		a.outcome, a.took = served, 100*time.Millisecond
		if a.class != critical && s.loaded(a.at) && i%2 == 0 {
			a.outcome = refused
		}
	}
	for i := range all {
		if all[i].at >= s.to+3 {
			all[i].outcome = refused
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
