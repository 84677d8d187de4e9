package history

import (
	"maps"
	"slices"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/distinct"
)

// late is how long after the end of a step all its reports are folded: PoPs report every 10 s, and a replica folds every 5 s.
const late = 15 * second

// Steps returns the last steps that are complete, of so many ms together. It leaves out whom they are of.
func (h *History) Steps(now, span int64) *v1.History {
	s := &v1.History{StepMs: length / int64(levels[0]), Rules: []v1.RuleHistory{}}
	if span > length {
		s.StepMs = minute
	}
	var hours []*hour
	for _, o := range h.hours {
		if o.end() > now-late-span-slack {
			hours, s.StepMs = append(hours, o), max(s.StepMs, o.step())
		}
	}
	n := int((span + s.StepMs - 1) / s.StepMs)
	from := ((now-late)/s.StepMs - int64(n)) * s.StepMs
	s.From, s.Known = timeOf(from), make([]bool, n)
	sums := map[string]*[kinds][]uint64{}
	for _, o := range hours {
		for i, known := range o.Known {
			place := int((o.at(i) - from) / s.StepMs)
			if o.at(i) < from || place >= n {
				continue
			}
			s.Known[place] = s.Known[place] || known
			for rule, counts := range o.Rules {
				for k, steps := range counts {
					if len(steps) == 0 || steps[i] == 0 {
						continue
					}
					if sums[rule] == nil {
						sums[rule] = newSums(n)
					}
					sums[rule][k][place] += uint64(steps[i])
				}
			}
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[rule]
		s.Rules = append(s.Rules, v1.RuleHistory{
			Rule: rule, Admitted: sum[admitted], Denied: sum[denied], ShadowDenied: sum[shadowDenied], Fallback: sum[fallback], Shed: sum[shed],
		})
	}
	return s
}

func newSums(n int) *[kinds][]uint64 {
	sum := new([kinds][]uint64)
	for k := range sum {
		sum[k] = make([]uint64, n)
	}
	return sum
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// KeysQuery is which keys and trials are asked for.
type KeysQuery struct {
	Span     int64 // ms: the hours that are in it
	Rejected bool  // the keys that were rejected most
	Limit    int   // most keys
	// Of picks rules, and Hides those whose keys do not show.
	Of, Hides func(rule string) bool
}

// Keys returns the keys that came most, or were rejected most, and all trials. It leaves out whom they are of.
func (h *History) Keys(now int64, q KeysQuery) *v1.HistoryKeys {
	from, all, trials, rejects := now, map[Key]Count{}, map[string]v1.Trial{}, map[string]*distinct.Keys{}
	for _, o := range h.hours {
		if o.end() <= now-q.Span {
			continue
		}
		if first := slices.Index(o.Known, true); first >= 0 {
			from = min(from, o.at(first))
		}
		keys := o.Keys
		if q.Rejected {
			keys = o.Denied
		}
		for k, n := range keys {
			if q.Of(k.Rule) && !q.Hides(k.Rule) {
				all[k] = Count{all[k].Requests + n.Requests, all[k].Over + n.Over}
			}
		}
		for rule, s := range o.Rules {
			would := sum(s[shadowDenied])
			if requests := would + sum(s[shadowAdmitted]); requests > 0 && q.Of(rule) {
				if rejects[rule] == nil {
					rejects[rule] = new(distinct.Keys)
				}
				rejects[rule].Merge(o.Trials[rule])
				t := trials[rule]
				trials[rule] = v1.Trial{Rule: rule, Requests: t.Requests + requests, ShadowDenied: t.ShadowDenied + would}
			}
		}
	}
	out := &v1.HistoryKeys{From: timeOf(from), Keys: []v1.KeyHistory{}, Trials: []v1.Trial{}}
	keys := byRequests(all)
	for _, k := range keys[:min(len(keys), q.Limit)] {
		out.Keys = append(out.Keys, v1.KeyHistory{Rule: k.Rule, Override: k.Override, Key: k.Key, Requests: all[k].Requests, Over: all[k].Over})
	}
	for _, rule := range slices.Sorted(maps.Keys(trials)) {
		t := trials[rule]
		if t.Keys = rejects[rule].Count(); t.Keys > 0 {
			t.ErrorPercent = distinct.ErrorPercent
		}
		out.Trials = append(out.Trials, t)
	}
	return out
}

func sum(steps []uint32) (n uint64) {
	for _, one := range steps {
		n += uint64(one)
	}
	return n
}
