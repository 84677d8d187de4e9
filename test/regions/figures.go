package regions

import (
	"math"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/measure"
)

// Figure is something that is measured while a script is played.
type Figure struct {
	Unit
	nature
	Region string        // "": all
	From   time.Duration // only what happens from then on
	To     time.Duration // and until then; 0: the end
	Begun  Begun         // only windows that have begun then
	rule   *Rule         // nil: all
	most   float64       // what the bound allows
	watch  bool          // it is of one region, whose replicas are asked all the time
	of     func(*Played, Figure) float64
}

// Begun is a time after an action of the script, by when that was done. The zero value is the beginning.
type Begun struct {
	Wait  time.Duration
	After string // the text of the action
}

// Figures are all figures, with their units. A name may be followed by "under RULE", "in REGION",
// "from TIME", "to TIME" and "begun TIME after ACTION", in this order, where that makes sense.
var Figures = map[string]Figure{
	// What is admitted of what the limit allows in that time: burst + rate × time for a token
	// bucket (without the burst if it does not count from 0s), else of as many whole windows.
	"admitted of the limit": {Unit: Percent, nature: ofLimit, of: (*Played).ofTheLimit},
	// What is admitted of the limit in the window in which that is most, and in the whole window in which
	// that is least.
	"fullest window":  {Unit: Percent, nature: ofLimit, of: (*Played).fullestWindow},
	"emptiest window": {Unit: Percent, of: (*Played).emptiestWindow},
	// What is admitted by all regions in a window that ran when some were cut off, of what is stated for
	// it: the limit and, by a rule with on_failure: local, what the shares of these regions are of the
	// limit's rate while they are cut off. See [Played.stated].
	"window that ran": {Unit: Percent, nature: ofLimit, of: (*Played).windowThatRan},
	// What is admitted per second.
	"admitted": {Unit: Rate, of: (*Played).perSecond},
	// Requests that got a 5xx, or no answer at all.
	"5xx or no answer": {Unit: Count, of: (*Played).failures},
	// The longest time from the sending of a request to its answer.
	"slowest request": {Unit: Duration, nature: effort, of: (*Played).slowest},
	// Requests of a rule that were answered later than after its timeout and [allowance].
	"requests slower than their timeout": {Unit: Count, nature: effort, of: (*Played).slow},
	// What 99 of 100 requests do not exceed, and by how much that is more than without a rule.
	"p99":       {Unit: Duration, nature: effort, of: (*Played).p99},
	"added p99": {Unit: Duration, nature: effort, of: (*Played).addedP99},
	// Requests that waited for the region. The first of a key at each PoP always does.
	"waiting requests": {Unit: Count, nature: effort, of: growthOf(func(m Mark) float64 { return m.Waits })},
	// Requests that waited for another region.
	"requests that waited for another region": {Unit: Count, nature: effort, of: growthOf(func(m Mark) float64 { return m.Far })},
	// Requests that were decided by on_failure.
	"degraded requests": {Unit: Count, nature: effort, of: growthOf(func(m Mark) float64 { return m.Degraded })},
	// What the busiest region asks the aggregator for in a second.
	"asks of one region": {Unit: Rate, nature: effort, of: (*Played).busiest},
	// From the given time until the last request that is decided by on_failure.
	"recovery": {Unit: Duration, nature: effort, of: (*Played).recovery},
	// From the given time, at which a region goes on by its reserve, until none of its replicas does.
	"use of the reserve": {Unit: Duration, nature: effort, watch: true, of: (*Played).useOfReserve},
	// Requests that PoPs admitted by themselves, because their region did not answer in time.
	"admitted by PoPs alone": {Unit: Count, of: func(p *Played, f Figure) float64 { return p.alone(f, f.From, p.until(f)) }},
	// From the last action at the given time, which lets a rule admit all that it refused, until the
	// last request that is not admitted.
	"change": {Unit: Duration, nature: effort, of: (*Played).change},
}

// covers reports whether a figure is about a load.
func (f Figure) covers(l Offer) bool {
	return l.Rule != "" && (f.rule == nil || f.rule.Name == l.Rule) && (f.Region == "" || f.Region == l.Region)
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
			n += float64(p.results[i].Slow)
		}
	}
	return n
}

func (p *Played) p99(f Figure) float64 {
	return p.quantile(f, f.covers)
}

func (p *Played) addedP99(f Figure) float64 {
	return p.p99(f) - p.quantile(f, func(l Offer) bool { return l.Rule == "" })
}

// quantile is the 99th percentile of the requests that were sent in the figure's time.
func (p *Played) quantile(f Figure, of func(Offer) bool) float64 {
	var all measure.Hist
	for i, l := range p.Script.Loads {
		for at := f.From; at < p.until(f) && of(l); at += time.Second {
			if h := p.results[i].Seconds[p.begin.Add(at).Unix()].Latency; h != nil {
				all.Merge(h)
			}
		}
	}
	if all.Count() == 0 {
		return math.NaN()
	}
	return all.Quantile(0.99).Seconds()
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
		late := p.results[i].Refused.Sub(p.begin) - begin
		if late <= 0 {
			return math.NaN()
		}
		took = max(took, late)
	}
	return took.Seconds()
}

// useOfReserve is exact to the time between two marks, and too high by as much. Nothing is measured if it did
// not begin or did not end.
func (p *Played) useOfReserve(f Figure) float64 {
	if p.marks[f.From].Reserves[f.Region] == 0 {
		return math.NaN()
	}
	last, ended := f.From, false
	for _, m := range p.watched {
		if m.At > f.From && m.At <= p.until(f) {
			if ended = m.Reserves[f.Region] == 0; !ended {
				last = m.At
			}
		}
	}
	if !ended {
		return math.NaN()
	}
	return (last - f.From).Seconds()
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
