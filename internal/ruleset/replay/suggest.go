package replay

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Aim is what a limit is to leave untouched.
type Aim struct {
	Share float64 // of the keys that count; above 0, at most 1
	Least int64   // requests of a key that counts, at least 1
}

// Suggestion is a limit for the keys of a rule that have no override.
type Suggestion struct {
	Rule    string `json:"rule"`
	Now     string `json:"limit_now"`
	Keys    int64  `json:"keys"`            // that count
	Sampled int64  `json:"sampled"`         // one of so many keys was looked at
	Largest int64  `json:"largest_peak"`    // what a key spends at most
	Limit   string `json:"limit_suggested"` // empty: none
	Note    string `json:"note,omitempty"`  // why it is none, or hardly one
	Lacks   string `json:"lacks,omitempty"` // what the log lacks, and what to do
	spec    limit.Spec
	peaks   []int64 // of the keys that count
}

const (
	// peakKeys bounds the keys that are looked at, of all rules together. One takes up to 2 kB: of a sliding log or a bucket.
	peakKeys = 1 << 17
	// fewKeys is from how many keys a suggestion means something.
	fewKeys = 100
)

// Suggest finds limits for the rules that have one.
func Suggest(log io.Reader, c Config, aim Aim) ([]Suggestion, error) {
	all, own := make([]Suggestion, c.Rules.Len()), map[sampled]bool{}
	for i := range all {
		of := c.Rules.Rule(i)
		if !of.Limited() || of.Mode == rule.Off {
			continue
		}
		spec := c.Rules.Limit(i, 0).Spec()
		all[i] = Suggestion{Rule: of.Name, Now: rule.FormatLimit(spec), spec: spec}
		of.EachKey([]rule.Secret{{}}, func(key []byte, _ *rule.KeyLimit) { own[sampled{i, hashOf(i, key)}] = true })
	}
	peaks := sample[*peak]{most: peakKeys}
	r := reader{decider: newDecider(c)}
	err := r.each(log, func(e *entry) {
		for i, h := range e.hits {
			k := sampled{h.Rule, e.hashes[i]}
			units := h.Cost
			if h.Settles {
				units = h.Used
			}
			if h.Variant != 0 || own[k] || units == 0 || !peaks.has(k.hash) {
				continue
			}
			p := peaks.of[k]
			if p == nil {
				p = new(peak)
				peaks.put(k, p)
			}
			p.add(c.Rules.Limit(h.Rule, 0), e.at, e.lasts, units)
		}
	})
	if err != nil {
		return nil, err
	}
	for k, p := range peaks.of {
		if p.requests >= aim.Least {
			all[k.rule].peaks = append(all[k.rule].peaks, p.most)
		}
	}
	for i := range all {
		all[i].Lacks = r.rules[i].note()
	}
	all = slices.DeleteFunc(all, func(s Suggestion) bool { return s.Rule == "" })
	for i := range all {
		all[i].Sampled = peaks.weight()
		all[i].choose(aim)
	}
	return all, nil
}

// choose chooses the limit.
func (s *Suggestion) choose(aim Aim) {
	n := len(s.peaks)
	if s.Keys = int64(n) * s.Sampled; n == 0 {
		s.Note = fmt.Sprintf("no key reaches --least (%d)", aim.Least)
		return
	}
	slices.Sort(s.peaks)
	s.Largest = s.peaks[n-1]
	units := rounded(float64(s.peaks[max(int(math.Ceil(aim.Share*float64(n)))-1, 0)]))
	if s.spec.Algorithm == limit.TokenBucket && s.spec.Count > 0 {
		s.spec.Count = rounded(float64(units) * float64(s.spec.Count) / float64(s.spec.Burst))
		s.spec.Burst = units
	} else {
		s.spec.Count = units
	}
	if _, err := limit.New(s.spec); err != nil {
		s.Note = err.Error()
		return
	}
	if s.Limit = rule.FormatLimit(s.spec); n < fewKeys {
		s.Note = fmt.Sprintf("few keys: %d", n)
	}
}

// rounded is a number rounded up to two digits.
func rounded(n float64) int64 {
	unit := 1.
	for n > 99*unit {
		unit *= 10
	}
	return int64(math.Ceil(n/unit) * unit)
}
