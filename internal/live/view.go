package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/wire"
)

const (
	// viewTime is how long a view is shown to all who ask.
	viewTime = 800 * time.Millisecond
	// silentAfter is after how long who has not reported counts as silent, and his keys do not count.
	silentAfter = 3 * time.Second
)

// View is what all reports show together. It never changes.
type View struct {
	// Of is whom it shows: "all regions", or "region eu".
	Of string
	// Watched is for how long somebody has watched. In the first seconds not everybody has reported.
	Watched time.Duration
	// Members are all that showed themselves within a minute: the aggregator's replicas, those of regions, PoPs. The
	// workers of a PoP are one. SilentMs is for how long none of them has been heard.
	Members []wire.Member
	// Silent are the regions that have not been heard for 3 s.
	Silent []string
	// Rules are those that decided anything, by name.
	Rules []Use
	// Busiest and Denied are the keys that come most, and that are refused most, the first ones most, at most 512.
	Busiest, Denied []Rate

	parts []part
	now   int64
}

// Use is how a rule is used.
type Use struct {
	wire.RuleUse                               // sums since the holders started
	AdmittedPerSecond, DeniedPerSecond float64 // over the last seconds
	// Used is how often requests of the rule's busiest key come, in terms of what its limit lets pass: more than 1 is
	// refused in the end, if each request takes one unit. 0: that is not known.
	Used float64
}

// part is one report.
type part struct {
	Note
	silent time.Duration
	m      wire.ReportRequest
}

// name is the name of whose report it is.
func (p *part) name() string {
	if p.ID[0] == 'r' {
		return p.m.Region
	}
	return p.m.Pop
}

// See is the view of now, or why there is none, at most a second old whatever the number of those who ask. Nothing is in
// it unless somebody watches, see [Desk.Begin].
func (d *Desk) See(ctx context.Context) (*View, error) {
	d.viewing.Lock()
	defer d.viewing.Unlock()
	if time.Since(d.made) < viewTime {
		return d.view, d.away
	}
	bounded, cancel := context.WithTimeout(ctx, boardTime)
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

func (d *Desk) viewOf(notes []Note, now int64) *View {
	v := &View{Of: "this replica", now: now}
	switch {
	case d.config.Regions:
		v.Of = "all regions"
	case d.config.Region != "":
		v.Of = "region " + d.config.Region
	}
	d.mu.Lock()
	if d.watching() != nil {
		v.Watched = time.Since(d.since)
	}
	d.mu.Unlock()
	for _, n := range notes {
		p := part{Note: n, silent: time.Duration(now-n.At) * time.Millisecond}
		if n.ID != "" && p.m.Decode(n.Text) == nil {
			v.parts = append(v.parts, p)
		}
	}
	slices.SortFunc(v.parts, func(a, b part) int { return cmp.Compare(a.ID, b.ID) })
	fresh := slices.DeleteFunc(slices.Clone(v.parts), func(p part) bool { return p.silent > silentAfter })
	v.Busiest = rates(fresh, busiest, false)
	v.Denied = rates(fresh, denied, false)
	v.Members = members(v.parts)
	v.Rules = d.uses(v)
	v.Silent = d.silent(v)
	return v
}

func busiest(m *wire.ReportRequest) []wire.KeyRate { return m.Keys }
func denied(m *wire.ReportRequest) []wire.KeyRate  { return m.Denied }

// ByPoP are the keys of Busiest, or Denied, of each PoP apart; at the aggregator those of each region.
func (v *View) ByPoP(refused bool) []Rate {
	list := busiest
	if refused {
		list = denied
	}
	return rates(slices.DeleteFunc(slices.Clone(v.parts), func(p part) bool { return p.silent > silentAfter }), list, true)
}

// members are those of all reports.
func members(parts []part) []wire.Member {
	type who struct {
		kind                 wire.MemberKind
		region, name, holder string
	}
	of := map[who]int{}
	var all []wire.Member
	for i := range parts {
		for _, m := range parts[i].m.Members {
			m.SilentMs = sum(m.SilentMs, uint64(max(parts[i].silent.Milliseconds(), 0)))
			m.Workers = max(m.Workers, 1)
			id := who{m.Kind, m.Region, m.Name, string(m.Holder)}
			at, known := of[id]
			if !known {
				of[id] = len(all)
				all = append(all, m)
				continue
			}
			add(&all[at], &m)
		}
	}
	slices.SortFunc(all, func(a, b wire.Member) int {
		return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Name, b.Name),
			slices.Compare(a.Holder, b.Holder))
	})
	return all
}

// add adds another worker of the same PoP. The rules are those of the one that is behind.
func add(to, m *wire.Member) {
	to.Worker = 0
	to.Workers = uint32(min(uint64(to.Workers)+uint64(m.Workers), wire.MaxMembers))
	to.Keys, to.Places = sum(to.Keys, m.Keys), sum(to.Places, m.Places)
	to.AgeMs, to.DegradedMs, to.SilentMs = max(to.AgeMs, m.AgeMs), max(to.DegradedMs, m.DegradedMs), min(to.SilentMs, m.SilentMs)
	to.ReservePerMille = max(to.ReservePerMille, m.ReservePerMille)
	if m.RulesRevision < to.RulesRevision {
		to.RulesVersion, to.RulesRevision, to.RulesAgeMs = m.RulesVersion, m.RulesRevision, m.RulesAgeMs
	}
	if to.Error == "" || m.Error != "" && m.ErrorAgeMs < to.ErrorAgeMs {
		to.Error, to.ErrorAgeMs = m.Error, m.ErrorAgeMs
	}
}

// silent are regions that should have been heard.
func (d *Desk) silent(v *View) (names []string) {
	if !d.config.Regions || v.Watched < silentAfter {
		return nil
	}
	heard := map[string]bool{}
	for i := range v.parts {
		if p := &v.parts[i]; p.ID[0] == 'r' {
			heard[p.m.Region] = p.silent <= silentAfter
		}
	}
	if d.config.Expected != nil {
		for _, name := range d.config.Expected() {
			heard[name] = heard[name] // false, if it has not been heard
		}
	}
	for name, lately := range heard {
		if !lately {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// rated is how fast a report's rules are used.
type rated struct {
	at      int64 // when the report came that later ones are compared with
	members int
	base    map[string]wire.RuleUse // of it
	uses    map[string]Use          // of the last one
}

// rateTime is over what time at least the use of rules is measured, in milliseconds: reports come once a second, but
// those of a region have what its PoPs showed up to two seconds before.
const rateTime = 3000

// uses adds what rules did. The speed is that of each report since the one before from the same holder.
func (d *Desk) uses(v *View) []Use {
	sums, now := map[string]*Use{}, make(map[string]rated, len(v.parts))
	for i := range v.parts {
		p := &v.parts[i]
		r := rate(p, d.rated[p.ID])
		now[p.ID] = r
		for name, u := range r.uses {
			s := sums[name]
			if s == nil {
				s = &Use{RuleUse: wire.RuleUse{Rule: name}}
				sums[name] = s
			}
			s.Matched, s.NoKey, s.Admitted = sum(s.Matched, u.Matched), sum(s.NoKey, u.NoKey), sum(s.Admitted, u.Admitted)
			s.Denied, s.ShadowDenied = sum(s.Denied, u.Denied), sum(s.ShadowDenied, u.ShadowDenied)
			if p.silent <= silentAfter {
				s.AdmittedPerSecond, s.DeniedPerSecond = s.AdmittedPerSecond+u.AdmittedPerSecond, s.DeniedPerSecond+u.DeniedPerSecond
			}
		}
	}
	d.rated = now
	for _, k := range v.Busiest {
		if s := sums[k.Rule]; s != nil && d.config.PerSecond != nil {
			if full := d.config.PerSecond(k.Rule, k.Override); full > 0 {
				s.Used = max(s.Used, (k.PerSecond-k.Over)/full)
			}
		}
	}
	out := make([]Use, 0, len(sums))
	for _, s := range sums {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Use) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}

// rate is how fast the rules of a report are used, compared with an earlier one. Where holders have come to a region, or
// gone, the sums of the two cannot be compared.
func rate(p *part, before rated) rated {
	r := rated{before.at, len(p.m.Members), before.base, make(map[string]Use, len(p.m.Rules))}
	like := before.base != nil && r.members == before.members
	seconds := float64(p.At-before.at) / 1000
	anew := !like || p.At-before.at >= rateTime
	if anew {
		r.at, r.base = p.At, make(map[string]wire.RuleUse, len(p.m.Rules))
	}
	for _, u := range p.m.Rules {
		old := before.uses[u.Rule]
		one := Use{RuleUse: u, AdmittedPerSecond: old.AdmittedPerSecond, DeniedPerSecond: old.DeniedPerSecond}
		if base, known := before.base[u.Rule]; known && like && anew && u.Admitted >= base.Admitted && u.Denied >= base.Denied {
			one.AdmittedPerSecond = float64(u.Admitted-base.Admitted) / seconds
			one.DeniedPerSecond = float64(u.Denied-base.Denied) / seconds
		}
		r.uses[u.Rule] = one
		if anew {
			r.base[u.Rule] = u
		}
	}
	return r
}

// Decision is one that a holder showed.
type Decision struct {
	wire.Decision        // AgeMs is how long ago it was
	Of            string // the PoP, or at the aggregator the region
}

// Decisions are those that a tap asks for and that are not in the views before, and seen is what the next call gets.
// At first it is nil.
func (v *View) Decisions(t *wire.Tap, seen map[string]int64) (found []Decision, now map[string]int64) {
	now = make(map[string]int64, len(v.parts))
	for i := range v.parts {
		p := &v.parts[i]
		now[p.ID] = p.At
		if seen[p.ID] >= p.At {
			continue
		}
		for _, one := range p.m.Decisions {
			if matches(t, &one) {
				one.AgeMs = sum(one.AgeMs, uint64(max(p.silent.Milliseconds(), 0)))
				found = append(found, Decision{one, p.name()})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Decision) int { return cmp.Compare(b.AgeMs, a.AgeMs) })
	if most := int(min(max(t.PerSecond, 1), wire.MaxDecisions)); len(found) > most {
		kept := make([]Decision, most) // evenly
		for i := range kept {
			kept[i] = found[i*len(found)/most]
		}
		found = kept
	}
	return found, now
}
