package regions

import (
	"slices"
	"time"
)

// outage is a time in which the aggregator does not decide for a region.
type outage struct {
	region string
	from   time.Duration // since the beginning of the play: when the action began that cut it off
	to     time.Duration // when it was granted something again; else the end of the play
	grey   bool          // some calls are answered all the time
}

// renounced is how far ahead a region has renounced its reserve, from the aggregator's time in its newest
// reply on: windows that begin until then run on at the region's share of the rate.
const renounced = 3 * time.Second

// outages are those of a play, by what its actions cut off and end.
func (p *Played) outages() (all []outage) {
	for _, name := range Names {
		var causes []string // how each will end
		var from time.Duration
		var grey bool
		for i, e := range p.Script.Events {
			if !e.Act.concerns(name) {
				continue
			}
			if p.Script.Shared && e.Act.ends == start { // the other one goes on
				all = append(all, outage{name, p.acts[i].began, p.granted(name, p.acts[i].done), false})
				continue
			}
			if e.Act.ends != "" {
				if len(causes) == 0 {
					from, grey = p.acts[i].began, true
				}
				grey = grey && (e.Act.trip > 0 || e.Act.lost > 0 && e.Act.lost < 1)
				causes = append(causes, e.Act.ends)
				continue
			}
			if n := len(causes); n > 0 {
				causes = slices.DeleteFunc(causes, func(end string) bool { return end == e.Act.form })
				if len(causes) == 0 {
					all = append(all, outage{name, from, p.granted(name, p.acts[i].done), grey})
				}
			}
		}
		if len(causes) > 0 {
			all = append(all, outage{name, from, p.Script.Last(), grey})
		}
	}
	return all
}

// granted is when the aggregator has granted a region something after a time, to the next mark.
func (p *Played) granted(region string, after time.Duration) time.Duration {
	for i, m := range p.watched {
		if i > 0 && p.watched[i-1].At >= after && m.Granted[region] > p.watched[i-1].Granted[region] {
			return m.At
		}
	}
	return p.Script.Last()
}

// cutIn are the outages whose regions go on in a window at their share of the rate: it ran when they were
// cut off, or has begun so soon after it that they had renounced it. In a grey outage a region may renounce each
// window by a call that is answered, before one is not.
func (p *Played) cutIn(w window) (all []outage) {
	for _, o := range p.outages() {
		if o.from < w.end && o.to > w.begin && (o.grey || w.begin <= o.from+p.Script.Trips[o.region]+renounced) {
			all = append(all, o)
		}
	}
	return all
}

// stated is how many units a window may admit: the limit L, and by a rule with on_failure: local, and of
// each region that is cut off in it, at most s × L × t ÷ W more, where s is the region's share, t the time
// of the window for which it is cut off, and W the length of the window.
func (p *Played) stated(r *Rule, w window) float64 {
	count := float64(r.Spec.Count)
	most := count
	for _, o := range p.cutIn(w) {
		if r.Local && r.Global {
			cut := min(o.to, w.end) - max(o.from, w.begin)
			most += p.Script.share(o.region) * count * cut.Seconds() / period(r).Seconds()
		}
	}
	return most
}

// share is the largest share that a region has by the weights of the script.
func (s *Script) share(region string) (most float64) {
	part := func(weights map[string]int) float64 {
		sum := 0
		for _, n := range weights {
			sum += n
		}
		return float64(weights[region]) / float64(sum)
	}
	most = part(s.Weights)
	for _, e := range s.Events {
		if e.Act.weights != nil {
			most = max(most, part(e.Act.weights))
		}
	}
	return most
}
