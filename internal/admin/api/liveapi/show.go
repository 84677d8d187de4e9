package liveapi

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/describe"
)

func seen(v *live.View) v1.Seen { return v1.Seen{Of: v.Of, WatchedMs: v.Watched.Milliseconds()} }

func (o *operations) status(v *live.View) *v1.Status {
	s := &v1.Status{
		Seen: seen(v), InForce: o.InForce(), Missing: append([]string{}, v.Missing...), Regions: v.Regions,
		Members: make([]v1.Member, len(v.Members)), Rules: o.uses(v),
	}
	newest := s.InForce
	for i, m := range v.Members {
		s.Members[i] = v1.Member{
			Kind: kinds[m.Kind], Region: m.Region, Name: m.Name, Holder: hex.EncodeToString(m.Holder), Workers: m.Workers,
			Version: m.Version, RulesVersion: m.RulesVersion, RulesRevision: m.RulesRevision, RulesAgeMs: m.RulesAgeMs,
			AgeMs: m.AgeMs, LastReportMs: m.LastReportMs, DegradedMs: m.DegradedMs, ReservePerMille: m.ReservePerMille,
			Keys: m.Keys, Places: m.Places, Redis: m.Redis, Error: m.Error, ErrorAgeMs: m.ErrorAgeMs,
		}
		if m.Kind != quotav1.MemberKind_MEMBER_KIND_POP && m.RulesRevision > newest.Revision { // a PoP has its rules from one of the others, or lies
			newest.Version, newest.Revision = m.RulesVersion, m.RulesRevision
		}
	}
	same := map[[3]string]int{} // replicas on one host have its name
	for i := range s.Members {
		m := &s.Members[i]
		who := [3]string{m.Kind, m.Region, m.Name}
		if same[who]++; same[who] > 1 {
			m.Name += fmt.Sprintf(" (%d)", same[who])
		}
		m.Problem = problems(m, newest)
	}
	return s
}

// fullAt is how full a table counts as full, in percent.
const fullAt = 95

// problems are what is not well about a member, where these are the newest rules that anybody has. The same rules
// have several revisions where each program has a file of its own.
func problems(m *v1.Member, newest v1.InForce) string {
	var all []string
	say := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	ago := func(ms uint64) time.Duration {
		d := time.Duration(min(ms, 1<<40)) * time.Millisecond
		return max(d.Truncate(time.Second), min(d, time.Second)) // less than a second is not 0
	}
	say(m.LastReportMs > v1.MissingAfterMs, "not heard for %v", ago(m.LastReportMs))
	say(m.RulesVersion == "", "has no rules")
	say(m.RulesVersion != "" && m.RulesVersion != newest.Version && m.RulesRevision < newest.Revision, "has rules %d, not %d", m.RulesRevision, newest.Revision)
	say(m.DegradedMs > 0, "%s has not answered for %v", asked[m.Kind], ago(m.DegradedMs))
	say(m.Places > 0 && m.Keys*100 >= m.Places*fullAt, "its table is full")
	say(m.Redis != "" && m.Redis != "ok", "redis: %s", m.Redis)
	say(m.Error != "" && m.ErrorAgeMs == 0, "%s", m.Error)
	return strings.Join(all, "; ")
}

// asked is whom members of a kind ask.
var asked = map[string]string{"pop": "its region", "region": "the aggregator"}

var kinds = map[quotav1.MemberKind]string{
	quotav1.MemberKind_MEMBER_KIND_POP: "pop", quotav1.MemberKind_MEMBER_KIND_REGION: "region", quotav1.MemberKind_MEMBER_KIND_AGGREGATOR: "aggregator",
}

// uses are those of all rules in force, used or not. There are hints once a PoP has been heard.
func (o *operations) uses(v *live.View) []v1.Use {
	heard := slices.ContainsFunc(v.Members, func(m *quotav1.Member) bool { return m.Kind == quotav1.MemberKind_MEMBER_KIND_POP })
	names := o.Rules()
	all := make([]v1.Use, len(names))
	for i, name := range names {
		at, used := slices.BinarySearchFunc(v.Rules, name, func(u live.Use, name string) int { return cmp.Compare(u.Rule, name) })
		if used {
			u := &v.Rules[at]
			all[i] = v1.Use{
				Matched: u.Matched, NoKey: u.NoKey, Admitted: u.Admitted, Denied: u.Denied, ShadowDenied: u.ShadowDenied,
				Fallback: u.Fallback, Shed: u.Shed, AdmittedPerSecond: float64(u.AdmittedRate) / 1000, DeniedPerSecond: float64(u.DeniedRate) / 1000, Used: u.Used,
			}
		}
		all[i].Rule = name
		if r := o.Rule(name); r != nil { // the rules may have changed meanwhile
			all[i].Mode, all[i].Limit = r.Mode.String(), describe.Limit(r)
		}
		switch {
		case !heard || all[i].Mode == rule.Off.String() || all[i].Matched > 0:
		case all[i].NoKey > 0:
			all[i].Hint = v1.HintKeyMissing
		default:
			all[i].Hint = v1.HintMatchedNothing
		}
	}
	return all
}

// top is a list of keys, rejected keys or rules.
func (o *operations) top(v *live.View, by string, eachPoP bool, limit int) *v1.Top {
	t := &v1.Top{Seen: seen(v), Keys: []v1.Rate{}, Rules: []v1.Use{}}
	list := v.Busiest
	switch {
	case by == "rule":
		t.Rules = o.uses(v)
		slices.SortStableFunc(t.Rules, func(a, b v1.Use) int {
			return cmp.Compare(b.AdmittedPerSecond+b.DeniedPerSecond, a.AdmittedPerSecond+a.DeniedPerSecond)
		})
		t.Rules = t.Rules[:min(len(t.Rules), limit)]
		return t
	case eachPoP:
		list = v.ByPoP(by == "denied")
	case by == "denied":
		list = v.Denied
	}
	for _, r := range list[:min(len(list), limit)] {
		t.Keys = append(t.Keys, v1.Rate{Rule: r.Rule, Override: r.Override, Key: string(r.Key), From: r.Of, PerSecond: r.PerSecond(), Over: r.OverPerSecond()})
	}
	return t
}

// maxAge bounds the age of a decision, in milliseconds: what a PoP states may be anything.
const maxAge = 3600_000

func decisions(found []live.Decision) *v1.Decisions {
	now, out := time.Now(), new(v1.Decisions)
	for i := range found {
		d := &found[i]
		out.Items = append(out.Items, v1.Decision{
			When: now.Add(-time.Duration(min(d.AgeMs, maxAge)) * time.Millisecond).UTC().Truncate(time.Millisecond),
			Rule: d.Rule, Override: d.Override, Key: string(d.Key), From: d.Of, Outcome: v1.Outcomes[d.Outcome],
			Remaining: d.Remaining, RetryAfterMs: d.RetryAfterMs,
		})
	}
	return out
}
