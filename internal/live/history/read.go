package history

import (
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/distinct"
)

// late is how long after the end of a step all its reports are folded: PoPs report every 10 s, and a replica folds every 5 s.
const late = 15 * second

// Steps is what rules decided in steps of time.
type Steps struct {
	From, Step int64  // ms
	Known      []bool // by step
	Rules      []Rule // with any count, by name
}

// Rule is what one rule decided in each step.
type Rule struct {
	Name                                           string
	Admitted, Denied, ShadowDenied, Fallback, Shed []uint64
}

// Steps returns the last steps that are complete, of so many ms together.
func (h *History) Steps(now, span int64) Steps {
	t := &coarse
	if span <= fine.shown {
		t = &fine
	}
	s := Steps{Step: t.length / int64(levels[0])}
	var chunks []*chunk
	for _, c := range h.chunks {
		if c.Length == t.length && c.end() > now-late-span-t.length {
			chunks = append(chunks, c)
			s.Step = max(s.Step, c.step())
		}
	}
	until := (now - late) / s.Step * s.Step
	n := (span + s.Step - 1) / s.Step
	s.From, s.Known = until-n*s.Step, make([]bool, n)
	place := func(c *chunk, i int) int { // -1: outside
		if at := c.Start + int64(i)*c.step(); at >= s.From && at < until {
			return int((at - s.From) / s.Step)
		}
		return -1
	}
	sums := map[string]*[kinds][]uint64{}
	for _, c := range chunks {
		for i, known := range c.Known {
			if at := place(c, i); at >= 0 && known {
				s.Known[at] = true
			}
		}
		for rule, counts := range c.Rules {
			for k, steps := range counts {
				for i, count := range steps {
					at := place(c, i)
					if at < 0 || count == 0 {
						continue
					}
					if sums[rule] == nil {
						sums[rule] = newSums(n)
					}
					sums[rule][k][at] += uint64(count)
				}
			}
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[rule]
		s.Rules = append(s.Rules, Rule{rule, sum[admitted], sum[denied], sum[shadowDenied], sum[fallback], sum[shed]})
	}
	return s
}

func newSums(n int64) *[kinds][]uint64 {
	sum := new([kinds][]uint64)
	for k := range sum {
		sum[k] = make([]uint64, n)
	}
	return sum
}

// Keys is which keys came in the hours of a span of time.
type Keys struct {
	From   int64 // ms: when the first count began
	Keys   []KeyCount
	Trials []Trial
}

// KeyCount is a key and its requests.
type KeyCount struct {
	Key
	Count
}

// Trial is what a rule on trial decided.
type Trial struct {
	Rule                   string
	Requests, ShadowDenied uint64
	Keys                   uint64 // that would have been rejected, see [distinct.Keys]
}

// KeysQuery is which keys and trials are asked for.
type KeysQuery struct {
	Span     int64 // ms: the hours that are in it
	Rejected bool  // the keys that were rejected most
	Limit    int   // most keys
	// Of picks rules, and Hides those whose keys do not show.
	Of, Hides func(rule string) bool
}

// Keys returns the keys that came most, or were rejected most, and all trials.
func (h *History) Keys(now int64, q KeysQuery) Keys {
	out, all, trials := Keys{From: now}, map[Key]Count{}, map[string]*Trial{}
	rejects := map[string]*distinct.Keys{}
	for _, c := range h.chunks {
		if c.Length != coarse.length || c.end() <= now-q.Span {
			continue
		}
		if first := slices.Index(c.Known, true); first >= 0 {
			out.From = min(out.From, c.Start+int64(first)*c.step())
		}
		keys := c.Keys
		if q.Rejected {
			keys = c.Denied
		}
		for k, n := range keys {
			if q.Of(k.Rule) && !q.Hides(k.Rule) {
				all[k] = Count{all[k].Requests + n.Requests, all[k].Over + n.Over}
			}
		}
		for rule, s := range c.Rules {
			would := sum(s[shadowDenied])
			if requests := would + sum(s[shadowAdmitted]); requests > 0 && q.Of(rule) {
				t := trials[rule]
				if t == nil {
					t = &Trial{Rule: rule}
					trials[rule], rejects[rule] = t, new(distinct.Keys)
				}
				t.Requests, t.ShadowDenied = t.Requests+requests, t.ShadowDenied+would
				rejects[rule].Merge(c.Trials[rule])
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b Key) int { return compareKeys(all, a, b) })
	for _, k := range keys[:min(len(keys), q.Limit)] {
		out.Keys = append(out.Keys, KeyCount{k, all[k]})
	}
	for _, rule := range slices.Sorted(maps.Keys(trials)) {
		trials[rule].Keys = rejects[rule].Count()
		out.Trials = append(out.Trials, *trials[rule])
	}
	return out
}

func sum(steps []uint32) (n uint64) {
	for _, one := range steps {
		n += uint64(one)
	}
	return n
}
