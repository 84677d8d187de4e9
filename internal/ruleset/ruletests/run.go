package ruletests

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
)

// What a test has of time and network. docs/testing.md states the first three.
const (
	toRegion     = limit.Millisecond       // one way
	toAggregator = 40 * limit.Millisecond  // one way
	settling     = 2 * toRegion            // between two steps that state no time
	answered     = 500 * limit.Millisecond // within which a shadow rule decides, for which no request waits
	warmUp       = 5 * limit.Second        // before the start: PoPs and regions have what they need of the tiers above then
)

// secret is what tests hash keys of rules with hash under.
var secret = rule.Secret{'t', 'e', 's', 't'}

// Failure is how a step differs from what it expects.
type Failure struct {
	Line     int      `json:"line"` // of the step
	Step     int      `json:"step"` // from 1
	Expected []string `json:"expected"`
	Got      []string `json:"got"`            // for each that was expected
	Note     string   `json:"note,omitempty"` // which of several requests differ
}

// Run runs a test, and returns the first step that differs; nil: none. seen notes what its requests reach; nil: nobody
// asks.
func (s *Suite) Run(t *Test, seen *Coverage) (failure *Failure, err error) {
	c := world.Config{
		Rules: s.rules, Secret: &secret, Regions: regions(t, s.rules), Start: t.start - warmUp, Steady: true, NoJitter: true,
		Net: world.Net{Delay: toRegion}, Far: world.Net{Delay: toAggregator}, PagesLog2: 8, RulesEvery: limit.Hour,
	}
	for _, p := range t.pops {
		c.PoPs = append(c.PoPs, world.PoPConfig{Name: p.name, Region: p.region, Labels: p.labels})
	}
	err = world.Play(c, func(w *world.World) error {
		r := run{World: w, test: t, regions: c.Regions}
		w.Run(warmUp)
		for i := range t.steps {
			step := &t.steps[i]
			if at := t.start + step.at - w.Now(); step.at >= 0 && at > 0 {
				w.Run(at)
			} else if i > 0 && step.at < 0 {
				w.Run(settling)
			}
			if step.count == 0 {
				r.put(step.fault)
				continue
			}
			seen.note(&step.request, &t.pops[step.pop], w.Now())
			if failure = r.step(step); failure != nil {
				failure.Line, failure.Step = step.line, i+1
				break
			}
		}
		return nil
	})
	return failure, err
}

// run is a test that runs.
type run struct {
	*world.World
	test    *Test
	regions []string
}

// put puts a fault into effect: it cuts links, or joins them again.
func (r *run) put(f fault) {
	for _, region := range r.regions {
		if f.aggregator && (f.region == "" || f.region == region) {
			r.CutRegion(region, f.away)
		}
	}
	for _, p := range r.test.pops {
		if link := r.PoP(p.name).Link; !f.aggregator && p.region == f.region {
			link.Cut, link.Deaf = f.away, f.away
		}
	}
}

// step makes the requests of a step, and waits until all are decided.
func (r *run) step(s *step) *Failure {
	pop := r.PoP(r.test.pops[s.pop].name)
	t := tally{step: s, by: pop.Workers[0]}
	var before map[string]uint64
	shadow := slices.ContainsFunc(s.expect.fields, func(f field) bool { return f.name == "shadow" })
	begin := r.Now()
	for n := range s.count {
		if d := begin + limit.Micros(n)*s.every - r.Now(); d > 0 {
			r.Run(d)
		}
		if shadow && n == s.count-1 {
			r.Run(answered)
			before = wouldRefuse(t.by)
		}
		pop.Request(&world.Request{Fill: s.request.Fill, Lasts: s.lasts, Decided: t.decided})
		for t.count <= n && (s.every == 0 || n == s.count-1) {
			r.Run(limit.Millisecond)
		}
	}
	if shadow {
		r.Run(answered)
		for name, n := range wouldRefuse(t.by) {
			if n > before[name] {
				t.last.shadow = append(t.last.shadow, name)
			}
		}
		slices.Sort(t.last.shadow)
	}
	return t.failure()
}

// wouldRefuse is how many requests each shadow rule would have refused so far.
func wouldRefuse(by *edge.Worker) map[string]uint64 {
	all := map[string]uint64{}
	by.EachRule(func(name string, c *rulebook.RuleCounts) {
		name, _, _ = strings.Cut(name, ".override.")
		all[name] += c.Decided[rulebook.ShadowDenied]
	})
	return all
}

// tally is what became of the requests of a step.
type tally struct {
	step        *step
	by          *edge.Worker
	count       int    // decided
	counts      [2]int // allowed and denied
	differ      int    // whose verdict is not the expected one
	number      int    // of the first of these, from 1
	first, last outcome
}

func (t *tally) decided(q *world.Request) {
	t.count++
	t.last = outcomeOf(t.by, &q.Edge, t.count == t.step.count)
	t.counts[slices.Index(countFields, t.last.verdict)]++
	if !t.last.is(&t.step.expect) {
		if t.differ++; t.differ == 1 {
			t.first, t.number = outcomeOf(t.by, &q.Edge, true), t.count
		}
	}
}

// failure compares a step with what it expects; nil: it is that.
func (t *tally) failure() *Failure {
	f, e := &Failure{}, &t.step.expect
	compare := func(same bool, want, got string) {
		if !same {
			f.Expected, f.Got = append(f.Expected, want), append(f.Got, got)
		}
	}
	if t.differ > 0 {
		compare(false, by(e.outcome, e.rule), t.first.String())
		if t.step.count > 1 {
			f.Note = fmt.Sprintf("%d of %d requests differ, the first is number %d", t.differ, t.step.count, t.number)
		}
		return f
	}
	for i, name := range countFields {
		compare(e.counts[i] < 0 || e.counts[i] == t.counts[i], fmt.Sprint(name, " ", e.counts[i]), fmt.Sprint(name, " ", t.counts[i]))
	}
	for i := range e.fields {
		field := &e.fields[i]
		got := t.last.got(field)
		compare(got == field.want, field.shown(field.want), field.shown(got))
	}
	if len(f.Expected) == 0 {
		return nil
	}
	return f
}
