package live

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/wire"
)

const (
	// horizon is what counts of keys are brought to before they are added, in milliseconds: what comes r times a
	// second has a count of r * horizon.
	horizon = 8000
	// listed bounds the keys that are taken of one worker.
	listed = 128
	// mostKeys bounds the keys that are passed up, and shown.
	mostKeys = 512
)

// Rate is how often requests of one key are decided.
type Rate struct {
	Rule, Override string
	Key            []byte
	// Of is the PoP, or the region, that showed it; empty: it is the sum of all.
	Of string
	// PerSecond is the sum of what PoPs list, each the keys that come most there, and Over by how much it is too large
	// at most.
	PerSecond, Over float64

	count, over uint64
}

type rateOf struct{ rule, override, key, of string }

// rates adds the lists of several reports. With apart it adds those of one PoP, or region, only.
func rates(parts []part, list func(*wire.ReportRequest) []wire.KeyRate, apart bool) []Rate {
	all := map[rateOf]*Rate{}
	for i := range parts {
		p := &parts[i]
		of := ""
		if apart {
			of = p.name()
		}
		for _, k := range list(&p.m) {
			id := rateOf{k.Rule, k.Override, string(k.Key), of}
			s := all[id]
			if s == nil {
				s = &Rate{Rule: k.Rule, Override: k.Override, Key: k.Key, Of: of}
				all[id] = s
			}
			s.count = sum(s.count, scaled(k.Count, p.m.IntervalMs))
			s.over = min(sum(s.over, scaled(k.Over, p.m.IntervalMs)), s.count)
		}
	}
	out := make([]Rate, 0, len(all))
	for _, s := range all {
		s.PerSecond, s.Over = float64(s.count)/horizon, float64(s.over)/horizon
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Rate) int {
		return cmp.Or(cmp.Compare(b.middle(), a.middle()), cmp.Compare(a.Rule, b.Rule), slices.Compare(a.Key, b.Key),
			cmp.Compare(a.Override, b.Override), cmp.Compare(a.Of, b.Of))
	})
	return out[:min(len(out), mostKeys)]
}

// scaled brings a count to the horizon.
func scaled(count uint64, intervalMs uint32) uint64 {
	return uint64(min(float64(count)*horizon/float64(max(intervalMs, 1)), most))
}

// most bounds every number of a report, so that what one holder makes up does not make that of a region illegal.
const most = 1<<53 - 1

// sum adds two numbers of reports.
func sum(a, b uint64) uint64 { return min(a+b, most) }

// middle is the middle of what the true count may be, doubled.
func (r *Rate) middle() uint64 { return 2*r.count - r.over }

// passed are rates as a report has them.
func passed(all []Rate) []wire.KeyRate {
	out := make([]wire.KeyRate, len(all))
	for i, r := range all {
		out[i] = wire.KeyRate{Rule: r.Rule, Override: r.Override, Key: r.Key, Count: r.count, Over: r.over}
	}
	return out
}
