package explain

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// clause is a part of a match: one that the evaluator decides, or several together.
type clause struct {
	name  string
	alone rule.Rule // with nothing but this clause
	keyed bool      // it is about the key
	of    []*clause // not alone: it holds if all of these hold or, if it is not, unless they do
	not   bool

	fails     bool
	needs     []string // the inputs that decide whether it fails; empty: it is known
	otherwise []string // needs, if the evaluator finds that it does not hold
}

// clauses are those of a rule, in the order in which the first one that fails is named.
type clauses struct {
	match     []*clause
	overrides [][]*clause // of each variant; the rule's own limit has none
}

// together is the first of some clauses that fails or, if none is known to fail, what decides whether all hold.
func together(all []*clause) (failed *clause, needs []string) {
	for _, c := range all {
		if c.fails {
			return c, nil
		}
		for _, n := range c.needs {
			if !slices.Contains(needs, n) {
				needs = append(needs, n)
			}
		}
	}
	return nil, needs
}

// decide decides a clause by those that it is of.
func (c *clause) decide() {
	for _, part := range c.of {
		part.decide()
	}
	if c.of == nil {
		return
	}
	failed, needs := together(c.of)
	if c.fails, c.needs = failed != nil, needs; c.not {
		c.fails = failed == nil && len(needs) == 0
	}
}

// clauses makes the clauses of a rule, and has the evaluator decide them. Those about the key are last: without the
// others a missing key is no reason.
func (e *explainer) clauses(r *rule.Rule) *clauses {
	m := &maker{explainer: e, rule: r}
	c, key := &clauses{}, m.key()
	plain, keyed := m.match(&r.Match)
	if c.match = plain; r.Mode != rule.Exempt {
		c.match = append(append(c.match, key), keyed...)
	}
	for i := range r.Limits {
		plain, keyed := m.match(&r.Limits[i].When)
		c.overrides = append(c.overrides, append(plain, keyed...))
	}
	m.evaluate()
	key.decide()
	for _, one := range m.alone {
		if one.keyed && len(key.needs) > 0 {
			one.fails, one.needs = false, key.needs
		}
	}
	for _, list := range append(c.overrides, c.match) {
		for _, one := range list {
			one.decide()
		}
	}
	return c
}

// maker makes the clauses of a rule.
type maker struct {
	*explainer
	rule  *rule.Rule
	parts []rule.Part // of its key, as far as they are known
	paths []rule.Text // the templates that have segments of the key
	alone []*clause   // those that the evaluator decides
}

// key is the clause that each part of the key is there. A part is known if its sources are that come before the one
// that the request has; those behind one that is not known are left out.
func (m *maker) key() *clause {
	all := &clause{name: "key", of: []*clause{}}
	for _, sources := range m.rule.Key {
		part := &clause{}
		var known rule.Part // a copy: making a set fills in its defaults
		for _, s := range sources {
			if part.otherwise = m.unknown(s); len(part.otherwise) > 0 {
				break
			}
			if known = append(known, s); s.From == rule.FromSegment {
				m.paths = m.rule.Match.Paths
			}
		}
		if all.of = append(all.of, part); len(known) == 0 {
			part.needs = part.otherwise
			continue
		}
		m.parts = append(m.parts, known)
		part.alone = rule.Rule{Match: m.spelled(), Key: []rule.Part{known}}
		m.add(part)
	}
	return all
}

// spelled is the match of a clause about the key, without the clause.
func (m *maker) spelled() rule.Match { return rule.Match{Paths: m.paths, Ignore: m.rule.Match.Ignore} }

// add adds a clause that the evaluator decides, by what it looks at.
func (m *maker) add(c *clause, from ...rule.Source) *clause {
	for _, s := range from {
		c.needs = append(c.needs, m.unknown(s)...)
	}
	c.alone.Name, c.alone.Limits = m.rule.Name, []rule.Variant{anyLimit}
	m.alone = append(m.alone, c)
	return c
}

// match makes the clauses of a match: those about the key, and the others.
func (m *maker) match(of *rule.Match) (plain, keyed []*clause) {
	add := func(name string, part rule.Match, from ...rule.Source) {
		if !part.Empty() {
			part.Ignore = of.Ignore
			plain = append(plain, m.add(&clause{name: name, alone: rule.Rule{Match: part}}, from...))
		}
	}
	add("method", rule.Match{Methods: of.Methods}, rule.Source{From: rule.FromMethod})
	add("host", rule.Match{Hosts: of.Hosts}, rule.Source{From: rule.FromHost})
	add("path", rule.Match{Paths: of.Paths}, rule.Source{From: rule.FromPath})
	add("until", rule.Match{Until: of.Until})
	add("region", rule.Match{Regions: of.Regions}, rule.Source{From: rule.FromRegion})
	add("client_ip", rule.Match{Clients: of.Clients, TrustedHops: of.TrustedHops}, rule.Source{TrustedHops: of.TrustedHops})
	for i, f := range of.Fields() {
		for _, n := range *f.List {
			var part rule.Match
			*part.Fields()[i].List = []rule.Named{n}
			add(f.From.String()+" "+n.Name, part, rule.Source{From: f.From, Name: n.Name})
		}
	}
	if of.Percent != (rule.Percent{}) {
		c := &clause{name: "percent", alone: rule.Rule{Match: m.spelled(), Key: m.parts}, keyed: true}
		c.alone.Match.Percent = of.Percent
		keyed = append(keyed, m.add(c))
	}
	for i := range of.Not {
		one, late := m.match(&of.Not[i])
		c := &clause{name: "not[" + strconv.Itoa(i) + "]", of: append(one, late...), not: true}
		if len(late) > 0 {
			keyed = append(keyed, c)
		} else {
			plain = append(plain, c)
		}
	}
	return plain, keyed
}

// evaluate has the evaluator decide the clauses whose inputs are known.
func (m *maker) evaluate() {
	var rules []rule.Rule
	var which []*clause
	for _, c := range m.alone {
		if len(c.needs) == 0 {
			rules, which = append(rules, c.alone), append(which, c)
		}
	}
	set := rule.NewSet(rules, nil, m.seed)
	var found rule.Matches
	set.Match(m.request(set.Inputs()), &found)
	for i, c := range which {
		if slices.ContainsFunc(found.Hits, func(h rule.Hit) bool { return h.Rule == i }) {
			continue
		}
		c.fails, c.needs = len(c.otherwise) == 0, c.otherwise
	}
}

// anyLimit is a limit of which nobody asks for what it is.
var anyLimit = rule.Variant{Limit: limit.Spec{Algorithm: limit.FixedWindow, Count: 5, Period: limit.Minute}}

// unknown are the inputs of a source that are not known.
func (e *explainer) unknown(s rule.Source) (words []string) {
	if e.known == nil {
		return nil
	}
	if word := request.Input(s); word != "" && !e.known[word] {
		words = append(words, word)
	}
	if word := request.HeaderInput("x-forwarded-for"); s.TrustedHops > 0 && !e.known[word] {
		words = append(words, word)
	}
	return words
}
