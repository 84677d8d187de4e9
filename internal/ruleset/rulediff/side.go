package rulediff

import (
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/lint"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// version is a set of rules to compare.
type version struct {
	set         *rule.Set
	stated      []map[string]field // by each rule
	unreachable map[string]string  // why no request reaches something of a rule, by its name
	under       [][]*rule.Rule     // for each exempt rule those of the other version that hold wherever it does
}

func newVersion(set, other *rule.Set, now time.Time) *version {
	v := &version{set: set, stated: fieldsOf(set), unreachable: map[string]string{}}
	for _, w := range lint.Check(set, now) {
		if slices.Contains([]string{"never-matches", "always-exempt", "override-unreachable"}, w.Code) {
			v.unreachable[w.Rule] = w.Field + " " + w.Reason
		}
	}
	v.under = make([][]*rule.Rule, set.Exempt())
	for i := range v.under {
		for j := range other.Exempt() {
			if o := other.Rule(j); lint.Covers(&o.Match, &set.Rule(i).Match) {
				v.under[i] = append(v.under[i], o)
			}
		}
	}
	return v
}

// side is one version of a rule.
type side struct {
	*version
	at      int
	rule    *rule.Rule       // if there is none, one that is off
	fields  map[string]field // what it states; nil: there is none
	lifting []*rule.Rule     // the exempt rules that are about it, but for those within one of the other version that is
	q       rule.Request
	m       rule.Matches
}

// side is the rule with a name.
func (v *version) side(name string) *side {
	s := &side{version: v, rule: &rule.Rule{Name: name, Mode: rule.Off}}
	if i, ok := v.set.Find(name); ok {
		s.at, s.rule, s.fields = i, v.set.Rule(i), v.stated[i]
	}
	about := func(e *rule.Rule) bool { return e.Lifts(name) }
	for i, under := range v.under {
		if e := v.set.Rule(i); about(e) && !slices.ContainsFunc(under, about) {
			s.lifting = append(s.lifting, e)
		}
	}
	return s
}

func (s *side) counts() bool { return s.rule.Mode != rule.Off && s.rule.Mode != rule.Exempt }

// outcome is what a version of a rule does with a request.
type outcome struct {
	hit     bool
	lifted  string // why it does not count it, if an exempt rule lifts it
	limit   string // which of its limits
	room    room   // of that
	variant uint64 // see rule.Set.Override
	key     string
	class   string // of a rule that sheds load
}

func (s *side) outcome(r *request.Request, now limit.Micros) (o outcome) {
	if !s.counts() {
		return o
	}
	s.q.PoP = nil
	r.Fill(s.set.Inputs(), &s.q)
	s.q.Now, s.q.Secret = now, new(rule.Secret) // any
	s.set.MatchRule(s.at, &s.q, &s.m)
	for _, by := range s.m.Exempt {
		o.lifted = "lifted by " + s.set.Rule(by).Name
	}
	for _, hit := range s.m.Hits {
		o = outcome{hit: true, limit: "the rule's own", variant: s.set.Override(s.at, hit.Variant), key: string(hit.Key)}
		v := &s.rule.Limits[hit.Variant]
		if o.room = *roomOf(v.Limit, v.Unlimited); hit.Variant > 0 {
			o.limit = strings.TrimSpace(v.Name + " " + rule.FormatLimit(v.Limit))
		}
	}
	for _, hit := range s.m.Sheds {
		o = outcome{hit: true, class: hit.Class.String()}
	}
	return o
}

// within reports whether it is plain to see that b counts all requests that a counts.
func within(a, b *side) bool {
	return !a.counts() || b.counts() && covers(b.rule, a.rule) && (b.rule.Shed != nil || hasKey(b.rule.Key, a.rule.Key)) &&
		!slices.ContainsFunc(b.lifting, func(e *rule.Rule) bool { return !lint.Apart(&e.Match, &a.rule.Match) }) &&
		(sameOverrides(a.rule, b.rule) || !slices.ContainsFunc(b.rule.Limits, func(v rule.Variant) bool { return v.Unlimited }))
}

// covers reports whether the match of outer plainly holds wherever that of inner does, but for percent and until.
func covers(outer, inner *rule.Rule) bool {
	wide := outer.Match
	wide.Percent, wide.Until = rule.Percent{}, 0
	return lint.Covers(&wide, &inner.Match)
}

// hasKey reports whether a key is there wherever another one is: each of its parts is always there, as a segment is wherever
// the match of its rule holds, or has all sources of a part of that one.
func hasKey(key, where []rule.Part) bool {
	always := func(s rule.Source) bool { return s.From == rule.FromConst || s.From == rule.FromSegment }
	for _, p := range key {
		lacks := func(s rule.Source) bool {
			return !slices.ContainsFunc(p, func(t rule.Source) bool { return whole(s) == whole(t) })
		}
		has := func(q rule.Part) bool { return !slices.ContainsFunc(q, lacks) }
		if !slices.ContainsFunc(p, always) && !slices.ContainsFunc(where, has) {
			return false
		}
	}
	return true
}

// sameKey reports whether requests that both sides match have one key.
func sameKey(a, b *side) bool {
	key, x, y := a.fields["key"].text, &a.rule.Match, &b.rule.Match
	segment := strings.Contains(key, `"segment"`)
	return key == b.fields["key"].text && (x.Ignore == y.Ignore || !segment && !strings.Contains(key, `"path"`)) &&
		(!segment || slices.Equal(x.Paths, y.Paths))
}

// limited reports whether both sides have limits.
func limited(a, b *side) bool { return a.rule.Shed == nil && b.rule.Shed == nil }

// sameClasses reports whether it is plain to see that requests have the same class, if both sides have classes.
func sameClasses(a, b *side) bool {
	return a.rule.Shed == nil || b.rule.Shed == nil || a.fields["shed.classes"] == b.fields["shed.classes"]
}

// sameOverrides reports whether the overrides of both sides are for the same requests.
func sameOverrides(a, b *rule.Rule) bool {
	return slices.EqualFunc(a.Limits, b.Limits, func(x, y rule.Variant) bool {
		return x.Name == y.Name && x.Unlimited == y.Unlimited && lint.Covers(&x.When, &y.When) && lint.Covers(&y.When, &x.When)
	})
}
