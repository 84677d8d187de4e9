package live

import (
	"cmp"
	"maps"
	"slices"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
)

// mostKeys bounds the keys that are passed up, and shown.
const mostKeys = 512

// Rate is how often requests of one key are decided: the sum of what PoPs list, each the keys that come most there.
type Rate struct {
	*quotav1.KeyRate
	// Of is the PoP, or the region, that showed it; empty: it is the sum of all.
	Of string
}

// PerSecond is how many requests a second there are at most, and OverPerSecond by how much that is too large at most.
func (r Rate) PerSecond() float64     { return float64(r.Count) / 1000 }
func (r Rate) OverPerSecond() float64 { return float64(r.Over) / 1000 }

type rateOf struct{ rule, override, key, of string }

// rates adds the lists of reports of the last 3 s: of the busiest keys, or of those that are rejected. With apart it
// adds those of one PoP, or region, only.
func rates(parts []part, rejected, apart bool) []Rate {
	all := map[rateOf]Rate{}
	for _, p := range parts {
		if p.lastReport > missingAfter {
			continue
		}
		of, list := "", p.m.Keys
		if apart {
			of = p.name
		}
		if rejected {
			list = p.m.Denied
		}
		for _, k := range list {
			id := rateOf{k.Rule, k.Override, string(k.Key), of}
			s, known := all[id]
			if !known {
				s = Rate{&quotav1.KeyRate{Rule: k.Rule, Override: k.Override, Key: k.Key}, of}
				all[id] = s
			}
			s.Count = sum(s.Count, k.Count)
			s.Over = min(sum(s.Over, k.Over), s.Count)
		}
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b Rate) int {
		return cmp.Or(cmp.Compare(b.middle(), a.middle()), cmp.Compare(a.Rule, b.Rule), slices.Compare(a.Key, b.Key),
			cmp.Compare(a.Override, b.Override), cmp.Compare(a.Of, b.Of))
	})
	return sorted[:min(len(sorted), mostKeys)]
}

// middle is the middle of what the true count may be, doubled.
func (r Rate) middle() uint64 { return 2*r.Count - r.Over }
