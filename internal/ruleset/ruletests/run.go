package ruletests

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
// asks. It is an error if ctx ends before the test does.
func (s *Suite) Run(ctx context.Context, t *Test, seen *Coverage) (failure *Failure, err error) {
	c := world.Config{
		Rules: s.rules, Secret: &secret, PoPs: t.pops, Regions: t.regions, Start: t.start - warmUp, Steady: true, NoJitter: true,
		Net: world.Net{Delay: toRegion}, Far: world.Net{Delay: toAggregator}, PagesLog2: 8, RulesEvery: limit.Hour,
		Ended: ctx.Done(),
	}
	err = world.Play(c, func(w *world.World) (err error) {
		w.Run(warmUp)
		for i := range t.steps {
			step := &t.steps[i]
			if at := t.start + step.at - w.Now(); step.at >= 0 && at > 0 {
				w.Run(at)
			} else if i > 0 && step.at < 0 {
				w.Run(settling)
			}
			if step.count == 0 {
				step.fault.put(w, t.pops)
				continue
			}
			seen.note(&step.request, &t.pops[step.pop], w.Now())
			if failure, err = step.run(ctx, w); err != nil {
				return err
			}
			if failure != nil {
				failure.Line, failure.Step = step.line, i+1
				break
			}
		}
		return ctx.Err()
	})
	return failure, err
}

// put puts a fault into effect: it cuts links, or joins them again.
func (f fault) put(w *world.World, pops []world.PoPConfig) {
	for _, region := range w.Regions {
		if f.aggregator && (f.region == "" || f.region == region.Name) {
			w.CutRegion(region.Name, f.away)
		}
	}
	for i, p := range pops {
		if link := w.PoPs[i].Link; !f.aggregator && p.Region == f.region {
			link.Cut, link.Deaf = f.away, f.away
		}
	}
}

// run makes the requests of a step, and waits until all are decided.
func (s *step) run(ctx context.Context, w *world.World) (*Failure, error) {
	pop := w.PoPs[s.pop]
	t := tally{step: s, by: pop.Workers[0]}
	var before map[string]uint64
	shadow := slices.ContainsFunc(s.expect.fields, func(f field) bool { return f.name == "shadow" })
	begin := w.Now()
	for n := range s.count {
		if d := begin + limit.Micros(n)*s.every - w.Now(); d > 0 {
			w.Run(d)
		}
		if shadow && n == s.count-1 {
			w.Run(answered)
			before = wouldRefuse(t.by)
		}
		pop.Request(&world.Request{Fill: s.request.Fill, Lasts: s.lasts, Decided: t.decided})
		for t.count <= n && (s.every == 0 || n == s.count-1) && ctx.Err() == nil {
			w.Run(limit.Millisecond)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if shadow {
		w.Run(answered)
		after := wouldRefuse(t.by)
		maps.DeleteFunc(after, func(name string, n uint64) bool { return n == before[name] })
		t.last.fields["shadow"] = shown(slices.Sorted(maps.Keys(after)))
	}
	return t.failure(), nil
}

// wouldRefuse is how many requests each shadow rule would have refused so far.
func wouldRefuse(by *edge.Worker) map[string]uint64 {
	all := map[string]uint64{}
	by.EachRule(func(name string, c *rulebook.RuleCounts) {
		name, _, _ = strings.Cut(name, ".override.")
		for d, n := range c.Decided {
			if like, _, _ := rulebook.Decision(d).ByShed(); like == rulebook.ShadowDenied {
				all[name] += n
			}
		}
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
	differs := func(want, got string) { f.Expected, f.Got = append(f.Expected, want), append(f.Got, got) }
	if t.differ > 0 {
		differs(by(e.outcome, e.rule), t.first.String())
		if t.step.count > 1 {
			f.Note = fmt.Sprintf("%d of %d requests differ, the first is number %d", t.differ, t.step.count, t.number)
		}
		return f
	}
	for i, name := range countFields {
		t.last.fields[name] = strconv.Itoa(t.counts[i])
	}
	for i := range e.fields {
		field := &e.fields[i]
		if got := t.last.got(field); got != field.want {
			differs(field.shown(field.want), field.shown(got))
		}
	}
	if len(f.Expected) == 0 {
		return nil
	}
	return f
}
