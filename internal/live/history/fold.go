package history

import (
	"cmp"
	"maps"
	"math"
	"slices"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/distinct"
)

const (
	// maxCount bounds the requests of a rule in a step, and those that one report adds.
	maxCount = math.MaxUint32
	// reportEvery is how often a holder reports, with a second for a report that is late.
	reportEvery = 11 * second
	// maxKeysTime is for how long the keys of one report stand at most, and watchedKeysTime if it does not say so: then somebody
	// watches, and reports come once a second and are folded every 5 s.
	maxKeysTime, watchedKeysTime = 2 * minute, 6 * second
	// keysLate is how long after the end of an hour reports have keys of trials of that hour.
	keysLate = 90 * second
	// young is the age of a holder, in ms, up to which all of its first report counts.
	young = minute
	// maxTotals bounds what is remembered of all holders: a rule of a holder is one.
	maxTotals = 1 << 15
	// longestBreak is how long after the last fold a fold goes on from the totals of then.
	longestBreak = minute
)

// Report is a report of a holder.
type Report struct {
	ID string // names the holder, or its worker
	At int64  // when it came
	*quotav1.ReportRequest
}

// holders are what holders reported last. The fields are saved.
type holders struct {
	Folded int64 // when reports were folded last; 0: never
	By     map[string]*holder
}

// holder is what one reported last.
type holder struct {
	At     int64 // when
	Totals map[string]totals
}

// totals are numbers of requests, by kind.
type totals [kinds]uint64

func totalsOf(u *quotav1.RuleUse) totals {
	return totals{
		admitted: u.Admitted, denied: u.Denied, shadowDenied: u.ShadowDenied, fallback: u.Fallback, shed: u.Shed,
		shadowAdmitted: u.ShadowAdmitted,
	}
}

// since is how much larger totals are than before.
func (t totals) since(before totals) (more totals, any bool) {
	for k := range t {
		if t[k] > before[k] {
			more[k], any = min(t[k]-before[k], maxCount), true
		}
	}
	return more, any
}

// Fold adds what reports say beyond the reports before. All reports of the last minute are given each time.
func (h *History) Fold(now int64, reports []Report) {
	if since := now - h.holders.Folded; since > longestBreak || since < 0 {
		h.holders = holders{By: map[string]*holder{}} // nobody knows when they counted what they counted since
	}
	for _, r := range reports {
		h.fold(r)
	}
	for at := h.holders.Folded; at > 0 && at < now; {
		o, place := h.hour(at)
		o.Known[place] = true
		at = o.at(place + 1)
	}
	h.holders.Folded = now
	h.holders.trim()
	h.trim(now)
}

// fold adds one report.
func (h *History) fold(r Report) {
	age := uint64(math.MaxInt64)
	if len(r.Members) > 0 {
		age = min(age, r.Members[0].AgeMs)
	}
	last := h.holders.By[r.ID]
	known := last != nil || age < young
	if last == nil {
		last = &holder{At: r.At - int64(min(age, reportEvery)), Totals: map[string]totals{}}
		h.holders.By[r.ID] = last
	} else if last.At == r.At {
		return
	}
	from := min(max(last.At, r.At-reportEvery), r.At-1)
	for _, u := range r.Rules {
		sum := totalsOf(u)
		if more, any := sum.since(last.Totals[u.Rule]); any && known {
			h.add(from, r.At, u.Rule, &more)
		}
		last.Totals[u.Rule] = sum
	}
	if len(r.Keys) > 0 {
		stands := min(uint64(r.KeysMs), maxKeysTime)
		if stands == 0 {
			stands = uint64(min(max(r.At-last.At, second), watchedKeysTime))
		}
		o, _ := h.hour(r.At)
		addKeys(o.Keys, r.Keys, stands)
		addKeys(o.Denied, r.Denied, stands)
	}
	for _, t := range r.Trials {
		o, _ := h.hour(r.At - keysLate)
		o.addTrial(t)
	}
	last.At = r.At
}

// addKeys adds keys that came at these rates for so many ms.
func addKeys(all map[Key]Count, rates []*quotav1.KeyRate, ms uint64) {
	for _, r := range rates {
		k := Key{r.Rule, r.Override, string(r.Key)}
		was := all[k]
		all[k] = Count{was.Requests + requests(r.Count, ms), was.Over + requests(min(r.Over, r.Count), ms)}
	}
	trimKeys(all, 16*maxKeys)
}

// trimKeys leaves maxKeys keys if there are more than so many: of each rule the one that came most, then of each rule the second
// one, and so on. So a rule with few requests keeps its first keys.
func trimKeys(all map[Key]Count, most int) {
	if len(all) <= most {
		return
	}
	keys, rank, ranks := byRequests(all), map[string]int{}, make(map[Key]int, len(all))
	for _, k := range keys {
		ranks[k] = rank[k.Rule]
		rank[k.Rule]++
	}
	slices.SortStableFunc(keys, func(a, b Key) int { return cmp.Compare(ranks[a], ranks[b]) })
	for _, k := range keys[maxKeys:] {
		delete(all, k)
	}
}

// byRequests are the keys, the one that came most first.
func byRequests(all map[Key]Count) []Key {
	return slices.SortedFunc(maps.Keys(all), func(a, b Key) int {
		return cmp.Or(cmp.Compare(all[b].Requests, all[a].Requests), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Override, b.Override))
	})
}

// requests is how many requests come in so many ms at a rate in thousandths of one a second.
func requests(rate, ms uint64) uint64 {
	const unit = 1_000_000
	return (min(rate, maxCount)*ms + unit/2) / unit
}

// addTrial adds keys that a rule on trial would have rejected.
func (o *hour) addTrial(t *quotav1.TrialKeys) {
	var keys distinct.Keys
	had := o.Trials[t.Rule]
	if had == nil && len(o.Trials) >= maxTrials || !keys.Merge(t.Registers) {
		return
	}
	keys.Merge(had)
	o.Trials[t.Rule] = keys[:]
}

// trim forgets the holders that were not heard for the longest time, until the others fit.
func (h *holders) trim() {
	n := 0
	for _, one := range h.By {
		n += 1 + len(one.Totals)
	}
	if n <= maxTotals {
		return
	}
	ids := slices.SortedFunc(maps.Keys(h.By), func(a, b string) int { return cmp.Compare(h.By[a].At, h.By[b].At) })
	for ; n > maxTotals; ids = ids[1:] {
		n -= 1 + len(h.By[ids[0]].Totals)
		delete(h.By, ids[0])
	}
}
