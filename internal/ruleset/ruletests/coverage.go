package ruletests

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/exact"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Coverage is which parts of rules the requests of tests reach: rules, their overrides and classes, each alternative of a clause
// that has several, and each not. It asks the evaluator itself: an alternative is a rule of its own, which has no other.
type Coverage struct {
	rules   *rule.Set
	parts   []part
	alone   *rule.Set               // has a rule for each of parts
	keyed   map[string]strict.Error // the overrides by key, by rule and key
	place   func(r *rule.Rule, path string) strict.Error
	reached map[strict.Error]bool // all parts by their places, which rules that come from one share
}

// part is a rule, an alternative or a not.
type part struct {
	place strict.Error
	of    int // in Coverage.rules
}

// anyLimit is a limit of which nobody asks for what it is.
var anyLimit = limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Minute}

// Coverage begins to note what tests reach.
func (s *Suite) Coverage() *Coverage {
	c := &Coverage{rules: s.rules, keyed: map[string]strict.Error{}, reached: map[strict.Error]bool{}}
	places := s.doc.Places()
	c.place = func(r *rule.Rule, path string) strict.Error {
		at := places(r.Name, path)
		at.Reason = "rule " + rule.Written(r.Name)
		return at
	}
	var alone []rule.Rule
	for i := range s.rules.Len() {
		r := s.rules.Rule(i)
		if r.Mode == rule.Off {
			continue
		}
		one := rule.Rule{Name: r.Name, Match: r.Match, Key: r.Key, Hash: r.Hash, Limits: []rule.Variant{{Limit: anyLimit}}}
		if r.Shed != nil { // which needs no key
			one.Key = nil
		}
		overrides := 0
		override := func() (at strict.Error) {
			at = c.place(r, strict.Index("overrides", overrides))
			overrides, c.reached[at] = overrides+1, false
			return at
		}
		for _, v := range r.Limits[min(1, len(r.Limits)):] {
			override()
			one.Limits = append(one.Limits, rule.Variant{When: v.When, Limit: anyLimit})
		}
		r.EachKey([]rule.Secret{exact.Secret}, func(key []byte, _ *rule.KeyLimit) { c.keyed[r.Name+"\n"+string(key)] = override() })
		add := func(path string) {
			at := c.place(r, path)
			c.parts, alone, c.reached[at] = append(c.parts, part{at, i}), append(alone, one), false
		}
		add("")
		each(&one.Match.Methods, "match.method", add)
		each(&one.Match.Hosts, "match.host", add)
		each(&one.Match.Paths, "match.path", add)
		each(&one.Match.Clients, "match.client_ip", add)
		each(&one.Match.Regions, "match.region", add)
		for j, not := range r.Match.Not {
			one = rule.Rule{Name: r.Name, Match: not, Limits: one.Limits[:1]}
			add(strict.Index("match.not", j))
		}
		for j, class := range r.ShedClasses() {
			one = rule.Rule{Name: r.Name, Match: class.When, Limits: one.Limits[:1]}
			add(strict.Index("shed.classes", j))
		}
	}
	c.alone = rule.NewSet(alone, nil, s.rules.Seed())
	return c
}

// each calls add while a list of several alternatives has one of them alone, for each.
func each[T any](list *[]T, path string, add func(path string)) {
	all := *list
	for i := 0; len(all) > 1 && i < len(all); i++ {
		*list = all[i : i+1]
		add(strict.Index(path, i))
	}
	*list = all
}

// note notes what a request reaches at a PoP at a time of day.
func (c *Coverage) note(r *request.Request, at *pop, now limit.Micros) {
	if c == nil {
		return
	}
	fill := func(set *rule.Set) *rule.Request {
		var q rule.Request
		r.Fill(set.Inputs(), &q)
		q.Now, q.Secret, q.PoP = now, &exact.Secret, at.place()
		return &q
	}
	var found, whole rule.Matches
	c.alone.Match(fill(c.alone), &found)
	c.rules.Match(fill(c.rules), &whole)
	for _, hit := range found.Hits {
		p := c.parts[hit.Rule]
		of := c.rules.Rule(p.of)
		if of.Mode != rule.Exempt && slices.ContainsFunc(whole.Exempt, func(by int) bool { return c.rules.Rule(by).Lifts(of.Name) }) {
			continue
		}
		c.reached[p.place] = true
		if own, ok := c.keyed[of.Name+"\n"+string(hit.Key)]; hit.Variant > 0 {
			c.reached[c.place(of, strict.Index("overrides", hit.Variant-1))] = true
		} else if ok {
			c.reached[own] = true
		}
	}
}

// Unreached are the places of the parts that no request reached, by file and line, and how many parts there are.
func (c *Coverage) Unreached() (places []strict.Error, all int) {
	for p, is := range c.reached {
		if !is {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b strict.Error) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Pos.Line-b.Pos.Line, a.Pos.Column-b.Pos.Column, strings.Compare(a.Path, b.Path))
	})
	return places, len(c.reached)
}
