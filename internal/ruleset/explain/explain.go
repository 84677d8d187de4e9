// Package explain finds out why a rule does not apply to a request. It asks the evaluator itself: each clause of a
// rule's match alone is a rule of its own, and the first of them that does not apply is the clause that failed.
package explain

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Verdict is what becomes of a request by one rule.
type Verdict struct {
	Rule *rule.Rule
	Hit  *rule.Hit // nil: it does not apply
	// Failed is the first clause that failed, in the words of the rule language: "path", "header x-tier", "not[0]", "key"
	// if a part of the key is missing, "mode" if the rule is off; empty: all hold.
	Failed string
	// ExemptBy is the exempt rule that lifts this one, whose clauses all hold; empty: none.
	ExemptBy string
	// Override is the name of the override whose condition holds, or its place, 1 for the first; empty: none, and the
	// rule's own limit counts. If it is Unlimited, nothing does.
	Override  string
	Unlimited bool
}

// Applies reports whether the rule does what it is for: it counts the request or, if it is exempt, lifts other rules.
func (v *Verdict) Applies() bool { return v.Hit != nil || v.Rule.Mode == rule.Exempt && v.Failed == "" }

// Rules explains each rule of a set. request makes the request for a set with these inputs.
func Rules(set *rule.Set, request func(*rule.Inputs) *rule.Request) []Verdict {
	var m rule.Matches
	set.Match(request(set.Inputs()), &m)
	all := make([]Verdict, set.Len())
	var exempt []*rule.Rule // that hold
	for i := range all {
		v, r := &all[i], set.Rule(i)
		v.Rule = r
		if at := slices.IndexFunc(m.Hits, func(h rule.Hit) bool { return h.Rule == i }); at >= 0 {
			v.Hit, v.Override = &m.Hits[at], override(r, m.Hits[at].Variant)
			continue
		}
		if v.Failed = failed(r, set.Seed(), request); v.Failed != "" {
			continue
		}
		if r.Mode == rule.Exempt {
			exempt = append(exempt, r)
			continue
		}
		by := slices.IndexFunc(exempt, func(e *rule.Rule) bool {
			return len(e.From) == 0 || slices.Contains(e.From, rule.Written(r.Name))
		})
		if by >= 0 {
			v.ExemptBy = exempt[by].Name
			continue
		}
		v.Override, v.Unlimited = unlimited(r, set.Seed(), request), true
	}
	return all
}

// clause is a part of a match, alone.
type clause struct {
	name  string
	match rule.Match
	keyed bool // it is about the key, or is the key itself
}

// clauses are those of a rule. Those about the key are last: without the others a missing key is no reason.
func clauses(r *rule.Rule) (all []clause) {
	m := &r.Match
	add := func(name string, part rule.Match, keyed bool) {
		if part.Empty() && !keyed {
			return
		}
		if part.Ignore = m.Ignore; keyed {
			part.Paths = m.Paths // their templates have segments of the key
		}
		all = append(all, clause{name, part, keyed})
	}
	add("method", rule.Match{Methods: m.Methods}, false)
	add("host", rule.Match{Hosts: m.Hosts}, false)
	add("path", rule.Match{Paths: m.Paths}, false)
	add("until", rule.Match{Until: m.Until}, false)
	add("region", rule.Match{Regions: m.Regions}, false)
	add("client_ip", rule.Match{Clients: m.Clients, TrustedHops: m.TrustedHops}, false)
	for i, f := range m.Fields() {
		for _, n := range *f.List {
			var part rule.Match
			*part.Fields()[i].List = []rule.Named{n}
			add(f.From.String()+" "+n.Name, part, false)
		}
	}
	for _, keyed := range []bool{false, true} {
		if keyed && r.Mode != rule.Exempt {
			add("key", rule.Match{}, true)
			add("percent", rule.Match{Percent: m.Percent}, true)
		}
		for i := range m.Not {
			if (m.Not[i].Percent != rule.Percent{}) == keyed {
				add("not["+strconv.Itoa(i)+"]", rule.Match{Not: m.Not[i : i+1]}, keyed)
			}
		}
	}
	return all
}

// failed is the first clause of a rule that does not hold.
func failed(r *rule.Rule, seed uint64, request func(*rule.Inputs) *rule.Request) string {
	if r.Mode == rule.Off {
		return "mode"
	}
	all := clauses(r)
	rules := make([]rule.Rule, len(all))
	for i, c := range all {
		rules[i] = rule.Rule{Name: r.Name, Match: c.match, Limits: []rule.Variant{anyLimit}}
		if c.keyed {
			rules[i].Key = keyOf(r)
		}
	}
	for i, hit := range hits(rules, seed, request) {
		if hit == nil {
			return all[i].name
		}
	}
	return ""
}

// anyLimit is a limit of which nobody asks for what it is.
var anyLimit = rule.Variant{Limit: limit.Spec{Algorithm: limit.FixedWindow, Count: 5, Period: limit.Minute}}

// keyOf is a copy of a rule's key: making a set fills in its defaults.
func keyOf(r *rule.Rule) (key []rule.Part) {
	for _, p := range r.Key {
		key = append(key, slices.Clone(p))
	}
	return key
}

// unlimited is the override of a rule, whose clauses all hold, that leaves the request uncounted.
func unlimited(r *rule.Rule, seed uint64, request func(*rule.Inputs) *rule.Request) string {
	counted := rule.Rule{Name: r.Name, Match: r.Match, Key: keyOf(r), Limits: slices.Clone(r.Limits)}
	for i := range counted.Limits {
		counted.Limits[i].Unlimited = false
	}
	return override(r, hits([]rule.Rule{counted}, seed, request)[0].Variant)
}

// override is a variant of a rule for people; empty: it is none.
func override(r *rule.Rule, variant int) string {
	if name := r.Limits[variant].Name; name != "" || variant == 0 {
		return name
	}
	return strconv.Itoa(variant)
}

// hits are those of rules by their index; nil: it has none.
func hits(rules []rule.Rule, seed uint64, request func(*rule.Inputs) *rule.Request) []*rule.Hit {
	all := make([]*rule.Hit, len(rules))
	set := rule.NewSet(rules, nil, seed)
	var m rule.Matches
	set.Match(request(set.Inputs()), &m)
	for i := range m.Hits {
		all[m.Hits[i].Rule] = &m.Hits[i]
	}
	return all
}
