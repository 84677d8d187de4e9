package live

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

const (
	// viewTime is how long a view is shown to all who ask.
	viewTime = 800 * time.Millisecond
	// missingAfter is the age of a last report from which on a member is missing, and its keys do not count.
	missingAfter = v1.MissingAfterMs * time.Millisecond
)

// View is what all reports show together. It never changes.
type View struct {
	// Of is whom it shows: "all regions", or "region eu".
	Of string
	// Watched is for how long somebody has watched. In the first seconds not everybody has reported.
	Watched time.Duration
	// Members are all that showed themselves within a minute: the aggregator's replicas, those of regions, PoPs. The
	// workers of a PoP are one. LastReportMs is the age of the newest report of all.
	Members []*quotav1.Member
	// Missing are the regions that have not reported for 3 s.
	Missing []string
	// Regions are those that reported within 3 s, by name.
	Regions []v1.RegionUse
	// Rules are those that decided anything, by name.
	Rules []Use
	// Busiest and Denied are the keys that come most, and that are rejected most, the first ones most, at most 512.
	Busiest, Denied []Rate

	parts []part
}

// Use is how a rule is used.
type Use struct {
	*quotav1.RuleUse // sums since the holders started, and of the last seconds
	// Used is how often requests of the rule's busiest key come, in terms of what its limit lets pass: more than 1 is
	// rejected in the end, if each request takes one unit. 0: that is not known.
	Used float64
}

// part is one report.
type part struct {
	id, name   string        // of its note, and of who made it
	at         int64         // when it came
	lastReport time.Duration // how long ago that was
	m          *quotav1.ReportRequest
}

// See is the view of now, or why there is none, at most a second old whatever the number of those who ask. Nothing is in
// it unless somebody watches, see [Collector.Begin].
func (d *Collector) See(ctx context.Context) (*View, error) {
	d.viewing.Lock()
	defer d.viewing.Unlock()
	if time.Since(d.made) < viewTime {
		return d.view, d.away
	}
	bounded, cancel := context.WithTimeout(ctx, notesTime)
	defer cancel()
	notes, now, err := d.config.Reports.All(bounded)
	switch d.view, d.away = nil, nil; {
	case ctx.Err() != nil: // this caller alone has gone
		return nil, ctx.Err()
	case err != nil:
		d.away = fmt.Errorf("reports: the store that the replicas share does not answer: %w", err)
	default:
		d.view = d.viewOf(notes, now)
	}
	d.made = time.Now()
	return d.view, d.away
}

// Of is whom views show, and the history: "all regions", "region eu", or "this replica".
func (d *Collector) Of() string {
	switch {
	case d.config.Regions:
		return "all regions"
	case d.config.Region != "":
		return "region " + d.config.Region
	}
	return "this replica"
}

func (d *Collector) viewOf(notes []Note, now int64) *View {
	v := &View{Of: d.Of()}
	if w := d.watching(); w != nil {
		v.Watched = time.Since(w.since)
	}
	for _, n := range notes {
		p := part{id: n.ID, at: n.At, lastReport: max(time.Duration(now-n.At)*time.Millisecond, 0), m: new(quotav1.ReportRequest)}
		if n.ID == "" || proto.Unmarshal(n.Text, p.m) != nil {
			continue
		}
		if p.name = p.m.Pop; d.config.Regions {
			p.name = p.m.Region
		}
		for _, one := range p.m.Decisions {
			one.AgeMs = sum(one.AgeMs, uint64(p.lastReport.Milliseconds()))
		}
		v.parts = append(v.parts, p)
	}
	slices.SortFunc(v.parts, func(a, b part) int { return cmp.Compare(a.id, b.id) })
	v.Busiest, v.Denied = rates(v.parts, false, false), rates(v.parts, true, false)
	v.Members = members(v.parts)
	v.Rules, v.Regions = d.uses(v), d.regions(v)
	v.Missing = d.missing(v)
	return v
}

// ByPoP are the keys of Busiest, or Denied, of each PoP apart; at the aggregator those of each region.
func (v *View) ByPoP(rejected bool) []Rate { return rates(v.parts, rejected, true) }

// members are those of all reports.
func members(parts []part) []*quotav1.Member {
	type who struct {
		kind                 quotav1.MemberKind
		region, name, holder string
	}
	all := map[who]*quotav1.Member{}
	for _, p := range slices.SortedStableFunc(slices.Values(parts), func(a, b part) int { return cmp.Compare(a.lastReport, b.lastReport) }) {
		for _, m := range p.m.Members {
			m.LastReportMs, m.Workers = sum(m.LastReportMs, uint64(p.lastReport.Milliseconds())), max(m.Workers, 1)
			id := who{m.Kind, m.Region, m.Name, string(m.Holder)}
			if to := all[id]; to != nil {
				add(to, m)
			} else {
				all[id] = m
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *quotav1.Member) int {
		return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Name, b.Name),
			slices.Compare(a.Holder, b.Holder))
	})
}

// regions adds the rates of each region that reported lately.
func (d *Collector) regions(v *View) []v1.RegionUse {
	sums := map[string]v1.RegionUse{}
	for _, p := range v.parts {
		if p.lastReport > missingAfter {
			continue
		}
		region := d.config.Region
		if d.config.Regions {
			region = p.name
		}
		s := sums[region]
		s.Region = region
		for _, u := range p.m.Rules {
			s.AdmittedPerSecond += float64(u.AdmittedRate) / 1000
			s.DeniedPerSecond += float64(u.DeniedRate) / 1000
		}
		sums[region] = s
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b v1.RegionUse) int { return cmp.Compare(a.Region, b.Region) })
}

// add adds another worker of the same PoP, which was heard earlier. The rules are those of the one that is behind.
func add(to, m *quotav1.Member) {
	to.Worker, to.Workers = 0, uint32(min(uint64(to.Workers)+uint64(m.Workers), wire.MaxListed))
	to.Keys, to.Places = sum(to.Keys, m.Keys), sum(to.Places, m.Places)
	if m.LastReportMs > v1.MissingAfterMs && to.LastReportMs <= v1.MissingAfterMs {
		return // it is idle, and how it did then does not matter
	}
	to.AgeMs, to.DegradedMs, to.LastReportMs = max(to.AgeMs, m.AgeMs), max(to.DegradedMs, m.DegradedMs), min(to.LastReportMs, m.LastReportMs)
	to.ReservePerMille = max(to.ReservePerMille, m.ReservePerMille)
	if m.RulesRevision < to.RulesRevision {
		to.RulesVersion, to.RulesRevision, to.RulesAgeMs = m.RulesVersion, m.RulesRevision, m.RulesAgeMs
	}
	if to.Error == "" || m.Error != "" && m.ErrorAgeMs < to.ErrorAgeMs {
		to.Error, to.ErrorAgeMs = m.Error, m.ErrorAgeMs
	}
}

// missing returns the regions that should have reported.
func (d *Collector) missing(v *View) (names []string) {
	if !d.config.Regions || v.Watched < missingAfter {
		return nil
	}
	lately := map[string]bool{}
	if d.config.Expected != nil {
		for _, name := range d.config.Expected() {
			lately[name] = false
		}
	}
	for _, p := range v.parts {
		if p.id[0] == 'r' {
			lately[p.name] = p.lastReport <= missingAfter
		}
	}
	maps.DeleteFunc(lately, func(_ string, heard bool) bool { return heard })
	return slices.Sorted(maps.Keys(lately))
}

// uses adds what rules did.
func (d *Collector) uses(v *View) []Use {
	sums := map[string]*Use{}
	for _, p := range v.parts {
		for _, u := range p.m.Rules {
			s := sums[u.Rule]
			if s == nil {
				s = &Use{RuleUse: &quotav1.RuleUse{Rule: u.Rule}}
				sums[u.Rule] = s
			}
			s.Matched, s.NoKey, s.Admitted = sum(s.Matched, u.Matched), sum(s.NoKey, u.NoKey), sum(s.Admitted, u.Admitted)
			s.Denied, s.ShadowDenied = sum(s.Denied, u.Denied), sum(s.ShadowDenied, u.ShadowDenied)
			s.Fallback, s.Shed, s.ShadowAdmitted = sum(s.Fallback, u.Fallback), sum(s.Shed, u.Shed), sum(s.ShadowAdmitted, u.ShadowAdmitted)
			if p.lastReport <= missingAfter {
				s.AdmittedRate, s.DeniedRate = sum(s.AdmittedRate, u.AdmittedRate), sum(s.DeniedRate, u.DeniedRate)
			}
		}
	}
	for _, k := range v.Busiest {
		if s := sums[k.Rule]; s != nil && d.config.PerSecond != nil {
			if full := d.config.PerSecond(k.Rule, k.Override, k.Key); full > 0 {
				s.Used = max(s.Used, (k.PerSecond()-k.OverPerSecond())/full)
			}
		}
	}
	out := make([]Use, 0, len(sums))
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, *sums[name])
	}
	return out
}

// Decision is one that a holder showed; AgeMs is how long before the view.
type Decision struct {
	*quotav1.Decision
	Of string // the PoP, or at the aggregator the region
}

// Decisions are those that a tap asks for and that are not in the views before, and seen is what the next call gets.
// At first it is nil.
func (v *View) Decisions(t *quotav1.Tap, seen map[string]int64) (found []Decision, now map[string]int64) {
	now = make(map[string]int64, len(v.parts))
	for _, p := range v.parts {
		now[p.id] = p.at
		if seen[p.id] >= p.at {
			continue
		}
		for _, one := range p.m.Decisions {
			if (t.Rule == "" || t.Rule == one.Rule || t.Rule == rule.Written(one.Rule)) &&
				(len(t.Key) == 0 || slices.Equal(t.Key, one.Key)) && (t.Outcome == 0 || t.Outcome == one.Outcome) {
				found = append(found, Decision{one, p.name})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Decision) int { return cmp.Compare(b.AgeMs, a.AgeMs) })
	if most := int(min(max(t.PerSecond, 1), wire.MaxDecisions)); len(found) > most {
		for i := range most { // evenly
			found[i] = found[i*len(found)/most]
		}
		found = found[:most]
	}
	return found, now
}
