package explain

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// clause is a part of a match, or the key.
type clause struct {
	name  string
	alone rule.Rule // with nothing but this clause
}

// anyLimit is a limit of which nobody asks for what it is.
var anyLimit = limit.Spec{Algorithm: limit.FixedWindow, Count: 5, Period: limit.Minute}

// clauses are those of a rule, in the order in which the first one that fails is named. Those about the key are last: without
// the others a missing key is no reason.
func clauses(r *rule.Rule) (all []clause) {
	m := &r.Match
	add := func(name string, part rule.Match, key ...rule.Part) {
		part.Ignore = m.Ignore
		all = append(all, clause{name, rule.Rule{Name: r.Name, Match: part, Key: key, Limits: []rule.Variant{{Limit: anyLimit}}}})
	}
	add("method", rule.Match{Methods: m.Methods})
	add("host", rule.Match{Hosts: m.Hosts})
	add("path", rule.Match{Paths: m.Paths})
	add("until", rule.Match{Until: m.Until})
	add("region", rule.Match{Regions: m.Regions})
	add("client_ip", rule.Match{Clients: m.Clients, TrustedHops: m.TrustedHops})
	for i, f := range m.Fields() {
		for _, n := range *f.List {
			var part rule.Match
			*part.Fields()[i].List = []rule.Named{n}
			add(f.From.String()+" "+n.Name, part)
		}
	}
	not := func(keyed bool, key ...rule.Part) {
		for i, n := range m.Not {
			if keyed == (n.Percent != rule.Percent{}) {
				add("not["+strconv.Itoa(i)+"]", rule.Match{Paths: m.Paths, Not: []rule.Match{n}}, key...)
			}
		}
	}
	not(false)
	if r.Limited() { // what sheds needs no key
		for _, part := range r.Key { // which may be a segment of the path
			add("key", rule.Match{Paths: m.Paths}, part)
		}
		add("percent", rule.Match{Paths: m.Paths, Percent: m.Percent}, r.Key...)
		not(true, r.Key...)
	}
	return all
}

// failed is the first clause of a rule that is known to fail; empty: none.
func (e *explainer) failed(r *rule.Rule) string {
	all := slices.DeleteFunc(clauses(r), func(c clause) bool { return len(e.known.Missing(&c.alone)) > 0 })
	var rules []rule.Rule
	for i := range all {
		rules = append(rules, all[i].alone)
	}
	holds := e.match(rules)
	for i := range all {
		if !slices.ContainsFunc(holds, func(h rule.Hit) bool { return h.Rule == i }) {
			return all[i].name
		}
	}
	return ""
}

// unlimited is the override of a rule that applies and counts nothing.
func (e *explainer) unlimited(r *rule.Rule) (variant int) {
	limited := *r
	limited.Limits = slices.Clone(r.Limits)
	for i := range limited.Limits {
		limited.Limits[i].Unlimited, limited.Limits[i].Limit = false, anyLimit
	}
	for _, h := range e.match([]rule.Rule{limited}) {
		variant = h.Variant
	}
	return variant
}

// match has the evaluator decide rules.
func (e *explainer) match(rules []rule.Rule) []rule.Hit {
	set := rule.NewSet(rules, nil, e.seed)
	var found rule.Matches
	set.Match(e.request(set.Inputs()), &found)
	return found.Hits
}
