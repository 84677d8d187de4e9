package ruletests

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Coverage is which parts of rules the requests of tests reach: rules, their overrides, each alternative of a clause that has
// several, and each not. It asks the evaluator itself: a part is a rule of its own, which has only this alternative.
type Coverage struct {
	of    *rule.Set
	set   *rule.Set // has a rule for each of parts
	parts []*part
	keyed map[string]*part // overrides by key, by rule and key
}

// part is something that a request can reach.
type part struct {
	strict.Error            // its place
	of           *rule.Rule // of the suite
	own          bool       // the part is the rule
	variant      int        // the override by attribute that it is; 0: none
	reached      bool
}

// Coverage begins to note what tests reach.
func (s *Suite) Coverage() *Coverage {
	c := &Coverage{of: s.rules, keyed: map[string]*part{}}
	place := s.doc.Places()
	var rules []rule.Rule
	for i := range s.rules.Len() {
		r := s.rules.Rule(i)
		if r.Mode == rule.Off {
			continue
		}
		newPart := func(at string) *part {
			p := &part{Error: place(r.Name, at), of: r}
			p.Reason = "rule " + rule.Written(r.Name)
			return p
		}
		add := func(at string, variant int, match rule.Match, key []rule.Part) {
			p := newPart(at)
			p.own, p.variant = at == "", variant
			alone := rule.Rule{Name: r.Name, Match: match, Limits: []rule.Variant{{Limit: anyLimit}}}
			for _, k := range key {
				alone.Key = append(alone.Key, slices.Clone(k)) // a set fills in defaults
			}
			for j := 1; j <= variant; j++ { // those before it may hold, too
				alone.Limits = append(alone.Limits, rule.Variant{When: r.Limits[j].When, Limit: anyLimit})
			}
			c.parts, rules = append(c.parts, p), append(rules, alone)
		}
		each := func(clause string, n int, only func(m *rule.Match, i int)) {
			for i := 0; n > 1 && i < n; i++ {
				m := r.Match
				only(&m, i)
				add(strict.Index("match."+clause, i), 0, m, r.Key)
			}
		}
		add("", 0, r.Match, r.Key)
		each("method", len(r.Match.Methods), func(m *rule.Match, i int) { m.Methods = m.Methods[i : i+1] })
		each("host", len(r.Match.Hosts), func(m *rule.Match, i int) { m.Hosts = m.Hosts[i : i+1] })
		each("path", len(r.Match.Paths), func(m *rule.Match, i int) { m.Paths = m.Paths[i : i+1] })
		each("client_ip", len(r.Match.Clients), func(m *rule.Match, i int) { m.Clients = m.Clients[i : i+1] })
		each("region", len(r.Match.Regions), func(m *rule.Match, i int) { m.Regions = m.Regions[i : i+1] })
		for j := range r.Match.Not {
			add(strict.Index("match.not", j), 0, r.Match.Not[j], nil)
		}
		for j := 1; j < len(r.Limits); j++ {
			add(strict.Index("overrides", j-1), j, r.Match, r.Key)
		}
		next := len(r.Limits) - 1 // in overrides
		r.EachKey([]rule.Secret{secret}, func(key []byte, _ *rule.KeyLimit) {
			c.keyed[r.Name+"\n"+string(key)] = newPart(strict.Index("overrides", next))
			next++
		})
	}
	c.set = rule.NewSet(rules, nil, s.rules.Seed())
	return c
}

// anyLimit is a limit of which nobody asks for what it is.
var anyLimit = limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Minute}

// note notes what a request reaches at a PoP at a time of day.
func (c *Coverage) note(r *request.Request, at *pop, now limit.Micros) {
	if c == nil {
		return
	}
	var q rule.Request
	var m rule.Matches
	match := func(set *rule.Set) []rule.Hit {
		r.Fill(set.Inputs(), &q)
		q.Now, q.Secret, q.PoP = now, &secret, &rule.PoP{Region: at.region, Labels: at.labels}
		set.Match(&q, &m)
		return m.Hits
	}
	for _, hit := range match(c.of) {
		if p := c.keyed[c.of.Rule(hit.Rule).Name+"\n"+string(hit.Key)]; p != nil {
			p.reached = true
		}
	}
	hits := match(c.set)
	lifted := func(of *rule.Rule) bool {
		return slices.ContainsFunc(hits, func(h rule.Hit) bool {
			by := c.parts[h.Rule]
			return by.own && by.of.Mode == rule.Exempt && of.Mode != rule.Exempt &&
				(len(by.of.From) == 0 || slices.Contains(by.of.From, rule.Written(of.Name)))
		})
	}
	for _, hit := range hits {
		if p := c.parts[hit.Rule]; p.variant == hit.Variant && !lifted(p.of) {
			p.reached = true
		}
	}
}

// Unreached are the places of the parts that no request reached, by file and line, and how many parts there are.
func (c *Coverage) Unreached() (places []strict.Error, all int) {
	reached := map[strict.Error]bool{} // rules that come from one have the same places
	for _, p := range slices.AppendSeq(slices.Clone(c.parts), maps.Values(c.keyed)) {
		reached[p.Error] = reached[p.Error] || p.reached
	}
	for p, is := range reached {
		if !is {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b strict.Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column), cmp.Compare(a.Path, b.Path))
	})
	return places, len(reached)
}
