package regions

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/limit"
)

// Figure is something that is measured while a script is played.
type Figure struct {
	Name   string        `yaml:"figure"`
	Rule   string        // "": all, or the only one
	Region string        // "": all
	From   time.Duration // only what happens from then on
	To     time.Duration // and until then; 0: the end
	Unit   `yaml:"-"`
	rule   *Rule   // nil: all
	most   float64 // what the bound allows
	of     func(*Played, Figure) float64
}

// String writes a figure on one line.
func (f Figure) String() string {
	text := f.Name
	for _, part := range [][2]string{{" under ", f.Rule}, {" in ", f.Region}} {
		if part[1] != "" {
			text += part[0] + part[1]
		}
	}
	if f.From > 0 {
		text += fmt.Sprint(" from ", f.From)
	}
	if f.To > 0 {
		text += fmt.Sprint(" to ", f.To)
	}
	return text
}

// Figures are all figures, with their units: percent, a number, a number per second, or seconds.
var Figures = map[string]Figure{
	// What is admitted of what the limit allows in that time: burst + rate × time for a token
	// bucket (without the burst if it does not count from 0s), else of as many whole windows.
	"admitted of the limit": {Unit: Percent, of: (*Played).ofTheLimit},
	// What is admitted of the limit in the window in which that is most, and in the whole window in which
	// that is least.
	"fullest window":  {Unit: Percent, of: (*Played).fullestWindow},
	"emptiest window": {Unit: Percent, of: (*Played).emptiestWindow},
	// What is admitted per second.
	"admitted": {Unit: Rate, of: (*Played).perSecond},
	// Requests that got a 5xx, or no answer at all.
	"5xx or no answer": {Unit: Count, of: (*Played).failures},
	// The longest time from the sending of a request to its answer.
	"slowest request": {Unit: Seconds, of: (*Played).slowest},
	// Requests of a rule that were answered later than its timeout and [allowance] after they were due.
	"requests slower than their timeout": {Unit: Count, of: (*Played).slow},
	// Requests that waited for another region.
	"requests that waited for another region": {Unit: Count, of: growthOf(func(m Mark) float64 { return m.Waited })},
	// Requests that were decided by on_failure.
	"degraded requests": {Unit: Count, of: growthOf(func(m Mark) float64 { return m.Degraded })},
	// What the busiest region asks the aggregators for in a second.
	"asks of one region": {Unit: Rate, of: (*Played).busiest},
	// From the given time until the last request that is decided by on_failure.
	"recovery": {Unit: Seconds, of: (*Played).recovery},
	// Requests that PoPs admitted by themselves, because their region did not answer in time.
	"admitted by PoPs alone": {Unit: Count, of: func(p *Played, f Figure) float64 { return p.alone(f, f.From, p.until(f)) }},
	// From the last action at the given time, which lets a rule admit all that it rejected, until the
	// last request that is not admitted.
	"change": {Unit: Seconds, of: (*Played).change},
}

func (f Figure) covers(l Offer) bool {
	return (f.rule == nil || f.rule.Name == l.Rule) && (f.Region == "" || f.Region == l.Region)
}

// until is the end of the time that a figure is about.
func (p *Played) until(f Figure) time.Duration {
	if f.To > 0 {
		return f.To
	}
	return p.Script.Last()
}

// admitted counts by the seconds in which requests were sent.
func (p *Played) admitted(f Figure, from, to time.Duration) (n int64) {
	for i, l := range p.Script.Loads {
		if !f.covers(l) {
			continue
		}
		for second := from; second < to; second += time.Second {
			n += p.results[i].Seconds[p.begin.Add(second).Unix()].OK
		}
	}
	return n
}

func (p *Played) perSecond(f Figure) float64 {
	to := p.until(f)
	return float64(p.admitted(f, f.From, to)) / (to - f.From).Seconds()
}

func (p *Played) ofTheLimit(f Figure) float64 {
	spec, to := f.rule.Spec, p.until(f)
	most := float64(spec.Count) * (to - f.From).Seconds() / period(f.rule).Seconds()
	if spec.Algorithm == limit.TokenBucket && f.From == 0 {
		answered := to // the last request is answered a little later, and the bucket refills meanwhile
		for i, l := range p.Script.Loads {
			answered = max(answered, l.From+p.results[i].Elapsed)
		}
		most = float64(spec.Burst) + float64(spec.Count)*answered.Seconds()/period(f.rule).Seconds()
	}
	n, allowed := float64(p.admitted(f, f.From, to)), f.most/100*most
	if n > allowed {
		n = max(allowed, n-p.alone(f, f.From, to))
	}
	return 100 * n / most
}

func (p *Played) failures(Figure) (n float64) {
	for _, r := range p.results {
		n += float64(r.Failed)
		for _, answers := range r.Status[http.StatusInternalServerError:] {
			n += float64(answers)
		}
	}
	return n
}

func (p *Played) slowest(f Figure) float64 {
	var most time.Duration
	for i, l := range p.Script.Loads {
		if f.covers(l) {
			most = max(most, p.results[i].Slowest)
		}
	}
	return most.Seconds()
}

func (p *Played) slow(f Figure) (n float64) {
	for i, l := range p.Script.Loads {
		if f.covers(l) {
			n += float64(p.results[i].Latency.Above(p.Script.rule(l.Rule).Timeout + allowance))
		}
	}
	return n
}

// between is how much a count has grown in the time of a figure, and that time.
func (p *Played) between(f Figure, count func(Mark) float64) (grown float64, took time.Duration) {
	from, to := p.marks[f.From], p.marks[p.until(f)]
	return count(to) - count(from), to.At - from.At
}

// growthOf measures how much a count has grown.
func growthOf(count func(Mark) float64) func(*Played, Figure) float64 {
	return func(p *Played, f Figure) float64 {
		n, _ := p.between(f, count)
		return n
	}
}

func (p *Played) busiest(f Figure) (most float64) {
	for _, name := range Names {
		n, took := p.between(f, func(m Mark) float64 { return m.Asks[name] })
		most = max(most, n/took.Seconds())
	}
	return most
}

// recovery is exact to the time between two marks, and too high by as much.
func (p *Played) recovery(f Figure) float64 {
	var last time.Duration
	for i, m := range p.watched {
		if i > 0 && m.At > f.From && m.At <= p.until(f) && m.Degraded > p.watched[i-1].Degraded {
			last = m.At - f.From
		}
	}
	return last.Seconds()
}

// change is too low by what passes until a worker's next request. Nothing is measured where a load
// was admitted before.
func (p *Played) change(f Figure) float64 {
	begin, took := p.lastAt(f.From), time.Duration(0)
	for i, l := range p.Script.Loads {
		if !f.covers(l) {
			continue
		}
		late := p.results[i].Rejected.Sub(p.begin) - begin
		if late <= 0 {
			return math.NaN()
		}
		took = max(took, late)
	}
	return took.Seconds()
}

// alone counts what PoPs admitted by themselves from the last mark before a time to the first one a second
// after another: a PoP counts at its next tick.
func (p *Played) alone(f Figure, from, to time.Duration) float64 {
	sum := func(m Mark) (n float64) {
		for what, count := range m.Alone {
			if (f.rule == nil || f.rule.Name == what.rule) && (f.Region == "" || f.Region == what.region) {
				n += count
			}
		}
		return n
	}
	before, after := Mark{}, p.marks[p.Script.Last()]
	for _, m := range p.watched {
		if m.At <= from {
			before = m
		}
		if m.At >= to+settle {
			after = m
			break
		}
	}
	if before.Alone == nil {
		before = p.first
	}
	return sum(after) - sum(before)
}
