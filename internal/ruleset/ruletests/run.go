package ruletests

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/ruleset/exact"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

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
func (s *Suite) Run(ctx context.Context, t *Test, seen *Coverage) (*Failure, error) {
	p := newPlayer(s.rules, t)
	for i := range t.steps {
		step := &t.steps[i]
		p.now = max(p.now, t.start+step.at)
		if step.count == 0 {
			p.put(step.fault)
			continue
		}
		seen.note(&step.request, &t.pops[step.pop], p.now)
		failure, err := p.step(ctx, step)
		if err != nil {
			return nil, err
		}
		if failure != nil {
			failure.Line, failure.Step = step.line, i+1
			return failure, nil
		}
	}
	return nil, nil
}

// put puts a fault into effect: something does not answer any more, or answers again.
func (p *player) put(f fault) {
	for _, region := range p.test.regions {
		switch {
		case f.aggregator && (f.region == "" || f.region == region):
			p.cutOff[region] = f.down
		case !f.aggregator && f.region == region:
			p.down[region] = f.down
		}
	}
}

// step makes the requests of a step.
func (p *player) step(ctx context.Context, s *step) (*Failure, error) {
	t := tally{step: s}
	begin := p.now
	for n := range s.count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p.now = begin + limit.Micros(n)*s.every
		p.end()
		p.request(&s.request, s)
		t.decided(p)
	}
	return t.failure(), nil
}

// request decides a request of a step.
func (p *player) request(r *request.Request, s *step) {
	place := &p.test.pops[s.pop]
	r.Fill(p.set.Inputs(), &p.input)
	p.input.Now, p.input.Secret, p.input.PoP = p.now, &exact.Secret, place.place()
	p.set.Match(&p.input, &p.found)
	p.decide(place, s)
}

// tally is what became of the requests of a step.
type tally struct {
	step        *step
	count       int    // decided
	counts      [2]int // allowed and denied
	differ      int    // whose verdict is not the expected one
	number      int    // of the first of these, from 1
	first, last outcome
}

func (t *tally) decided(p *player) {
	t.count++
	t.last = p.outcome(t.count == t.step.count)
	t.counts[slices.Index(countFields, t.last.verdict)]++
	if !t.last.is(&t.step.expect) {
		if t.differ++; t.differ == 1 {
			t.first, t.number = p.outcome(true), t.count
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
