package rulediff

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/lint"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

const (
	allTries    = 700_000 // requests that are looked at, for all rules together
	leastTries  = 1_000   // for one rule
	mostTries   = 10_000  // for one rule
	mostSamples = 1_000   // requests with other keys that are asked for, for one rule
	mostFound   = 16      // examples of one rule
)

// side is one version of a rule.
type side struct {
	*version
	at     int          // of the rule in the set
	rule   *rule.Rule   // nil: there is none
	only   []*rule.Rule // exempt rules that lift it, and that only this version has
	own    *rule.Set    // these as rules that count, then the rule, for all percent; nil: it counts nothing
	q      rule.Request
	m, all rule.Matches // by own, and by the set
}

func (s *side) counts() bool {
	return s.rule != nil && s.rule.Mode != rule.Off && s.rule.Mode != rule.Exempt
}

// lifted reports whether an exempt rule is about the rule.
func (s *side) lifted(e *rule.Rule) bool {
	return len(e.From) == 0 || slices.Contains(e.From, rule.Written(s.rule.Name))
}

// prepare makes the rule ready to be asked, beside exempt rules that another version does not have.
func (s *side) prepare(other *side) {
	shared := map[string]bool{}
	for i, e := range other.exempt {
		if other.counts() && other.lifted(e) {
			shared[other.fields[i]["match"]] = true // exempt rules are the first
		}
	}
	var rules []rule.Rule
	for i, e := range s.exempt {
		if other.counts() && s.lifted(e) && !shared[s.fields[i]["match"]] {
			s.only = append(s.only, e)
			rules = append(rules, rule.Rule{Name: e.Name, Match: e.Match, Limits: []rule.Variant{{Limit: limit.Spec{Algorithm: limit.FixedWindow, Period: limit.Minute}}}})
		}
	}
	r := rule.Rule{Name: s.rule.Name, Match: s.rule.Match, Limits: slices.Clone(s.rule.Limits), Cost: s.rule.Cost}
	r.Match.Percent = rule.Percent{}
	for i := range r.Limits {
		r.Limits[i].Unlimited = false
	}
	for _, p := range s.rule.Key {
		r.Key = append(r.Key, slices.Clone(p)) // a set fills in defaults
	}
	s.own = rule.NewSet(append(rules, r), nil, s.set.Seed())
}

// outcome is what a version of a rule does with a request, but for its percent and exempt rules of both versions.
type outcome struct {
	hit      bool   // all conditions hold, and the key is there
	limited  bool   // no override frees the request
	lifted   string // the exempt rule that lifts it
	override uint64 // see rule.Set.Override
	variant  int
	key      []byte
	cost     int64
}

func (o *outcome) counts() bool { return o.limited && o.lifted == "" }

func (s *side) fill(in *rule.Inputs, r *request.Request, now limit.Micros) *rule.Request {
	s.q.PoP = nil
	r.Fill(in, &s.q)
	s.q.Now, s.q.Secret = now, new(rule.Secret) // any: keys with it are not compared
	return &s.q
}

func (s *side) outcome(r *request.Request, now limit.Micros) (o outcome) {
	if s.own == nil {
		return o
	}
	s.own.Match(s.fill(s.own.Inputs(), r, now), &s.m)
	for i := range s.m.Hits {
		switch hit := &s.m.Hits[i]; {
		case hit.Rule == len(s.only):
			o.hit, o.limited, o.variant, o.key, o.cost = true, !s.rule.Limits[hit.Variant].Unlimited, hit.Variant, hit.Key, hit.Cost
			o.override = s.own.Override(hit.Rule, hit.Variant)
		case o.lifted == "":
			o.lifted = s.only[hit.Rule].Name
		}
	}
	return o
}

// confirms asks all rules of the version whether this is what becomes of the request.
func (s *side) confirms(r *request.Request, now limit.Micros, o *outcome) bool {
	s.set.Match(s.fill(s.set.Inputs(), r, now), &s.all)
	for i := range s.all.Hits {
		if hit := &s.all.Hits[i]; s.rule != nil && s.set.Rule(hit.Rule) == s.rule {
			return o.counts() && s.set.Override(hit.Rule, hit.Variant) == o.override && hit.Cost == o.cost && (s.rule.Hash || bytes.Equal(hit.Key, o.key))
		}
	}
	return !o.counts()
}

// pair is two versions of a rule.
type pair struct {
	sides   [2]*side
	space   space
	now     limit.Micros
	open    map[string]bool // what is looked for
	done    map[string]bool // what was found
	raw     map[string]bool // what is there but for percent and exempt rules
	found   []Change
	results [2]outcome // of the newest request
	samples int
}

// newPair finds out what there is to look for.
func newPair(a, b *side, now limit.Micros) *pair {
	p := &pair{sides: [2]*side{a, b}, now: now, samples: mostSamples, raw: map[string]bool{}, done: map[string]bool{}}
	p.space.spellings = map[rule.Spelling]bool{}
	switch {
	case a.counts() && b.counts():
		a.prepare(b)
		b.prepare(a)
		p.open = map[string]bool{
			wider: !within(b, a), narrower: !within(a, b), lifted: b.liftsMore(a), freed: a.liftsMore(b), override: !sameOverrides(a, b),
			keyed: !sameKey(a, b), costs: a.rule.Cost != b.rule.Cost,
		}
	case a.counts():
		a.prepare(b)
		p.open = map[string]bool{narrower: true}
	case b.counts():
		b.prepare(a)
		p.open = map[string]bool{wider: true}
	}
	for i, s := range p.sides {
		if s.own == nil || !p.searches() {
			continue
		}
		p.space.match(&s.rule.Match, i)
		p.space.key(s.rule.Key)
		for _, e := range s.only {
			p.space.match(&e.Match, others)
		}
		for j := range s.rule.Limits {
			if p.open[override] {
				p.space.match(&s.rule.Limits[j].When, others)
			}
		}
		if c := s.rule.Cost; p.open[costs] && c.Header != "" {
			a := p.space.axis(rule.Source{From: rule.FromHeader, Name: c.Header})
			a.conditions[others] = append(a.conditions[others], exact([]string{"2", "4294967296"})...)
		}
	}
	p.space.fill(a.field("key") == b.field("key"))
	return p
}

// within reports whether it is plain to see that b matches all requests that a matches.
func within(a, b *side) bool {
	inner, outer := a.rule.Match, b.rule.Match
	inner.Percent, outer.Percent, inner.Until, outer.Until = rule.Percent{}, rule.Percent{}, 0, 0
	return a.field("key") == b.field("key") && lint.Covers(&outer, &inner)
}

// sameKey reports whether requests that both sides match have one key.
func sameKey(a, b *side) bool {
	key, x, y := a.field("key"), &a.rule.Match, &b.rule.Match
	return key == b.field("key") && (x.Ignore == y.Ignore || !strings.Contains(key, `"path"`) && !strings.Contains(key, `"segment"`)) &&
		(!strings.Contains(key, `"segment"`) || slices.Equal(x.Paths, y.Paths))
}

// liftsMore reports whether exempt rules of s may lift what those of another side do not lift.
func (s *side) liftsMore(other *side) bool {
	return slices.ContainsFunc(s.only, func(e *rule.Rule) bool {
		return !slices.ContainsFunc(other.exempt, func(o *rule.Rule) bool { return other.lifted(o) && lint.Covers(&o.Match, &e.Match) })
	})
}

// sameOverrides reports whether the overrides of both sides are for the same requests.
func sameOverrides(a, b *side) bool {
	return slices.EqualFunc(a.rule.Limits, b.rule.Limits, func(x, y rule.Variant) bool {
		return x.Name == y.Name && x.Unlimited == y.Unlimited && lint.Covers(&x.When, &y.When) && lint.Covers(&y.When, &x.When)
	})
}

// searches reports whether there is something to look for.
func (p *pair) searches() bool {
	for _, open := range p.open {
		if open {
			return true
		}
	}
	return false
}

// search looks at all combinations of values, or at some of them that are near what fulfils one of the matches. It
// returns what was not found and may be there.
func (p *pair) search(tries int) (undecided []string) {
	all, complete, bases := 1, !p.space.vague, [2][]int{}
	for _, a := range p.space.axes {
		all, complete = min(all*len(a.values), tries+1), complete && a.complete
		for side := range bases {
			bases[side] = append(bases[side], a.base[side])
		}
	}
	slices.SortFunc(bases[:], slices.Compare) // so that it does not matter which version is the older one
	complete = complete && all <= tries
	if p.searches() && p.judge(bases[0]) && p.judge(bases[1]) {
		p.combine(bases, tries, all <= tries)
	}
	if !p.sides[older].counts() || !p.sides[newer].counts() {
		return nil
	}
	for _, kind := range slices.Sorted(maps.Keys(p.open)) {
		if p.open[kind] && !p.done[kind] && kind != costs && (p.raw[kind] || !complete) {
			undecided = append(undecided, kind)
		}
	}
	return undecided
}

// combine judges combinations of values: all, or so many that differ from one of the bases in one to three places.
func (p *pair) combine(bases [2][]int, tries int, all bool) {
	axes, random := p.space.axes, rand.New(rand.NewPCG(1, 1)) // the same each time
	at := make([]int, len(axes))
	for n := range tries {
		if !all {
			copy(at, bases[n%2])
			for range n/2%3 + 1 {
				i := random.IntN(len(axes))
				at[i] = random.IntN(len(axes[i].values))
			}
		}
		if !p.judge(at) {
			return
		}
		i := len(at) - 1 // whose values come one after the other
		for ; i >= 0; i-- {
			if at[i]++; at[i] < len(axes[i].values) {
				break
			}
			at[i] = 0
		}
		if all && i < 0 {
			return
		}
	}
}

// judge compares what both versions do with a request. It returns whether something is left to look for.
func (p *pair) judge(at []int) bool {
	r := p.space.request(at)
	for _, c := range p.differences(r) {
		switch kind := c.What; {
		case !p.open[kind] || slices.ContainsFunc(p.found, func(f Change) bool { return f.What == kind && f.Old == c.Old && f.New == c.New }):
		case p.confirm(r, c):
			p.done[kind] = true
			p.open[kind] = (kind == override || kind == lifted || kind == freed) && len(p.found) < mostFound
		default:
			p.raw[kind] = true
		}
	}
	return p.searches()
}

// differences are those between what both versions do with a request.
func (p *pair) differences(r *request.Request) (all []Change) {
	a, b := p.sides[older].outcome(r, p.now), p.sides[newer].outcome(r, p.now)
	p.results = [2]outcome{a, b}
	add := func(what, was, is string) { all = append(all, Change{What: what, Old: was, New: is}) }
	both := a.hit && b.hit
	switch {
	case !a.hit && b.hit:
		add(wider, "", "")
	case !b.hit && a.hit:
		add(narrower, "", "")
	case both && a.lifted == "" && b.lifted != "":
		add(lifted, "", b.lifted)
	case both && b.lifted == "" && a.lifted != "":
		add(freed, a.lifted, "")
	case both && (a.override != b.override || a.limited != b.limited):
		add(override, p.sides[older].used(a.variant), p.sides[newer].used(b.variant))
	case both && !bytes.Equal(a.key, b.key):
		add(keyed, string(a.key), string(b.key))
	}
	if a.counts() && b.counts() && a.cost != b.cost {
		add(costs, fmt.Sprint(a.cost), fmt.Sprint(b.cost))
	}
	return all
}

// confirm keeps a difference if all rules of both versions agree, for this request or for one with another key, as percent
// may leave this one out.
func (p *pair) confirm(r *request.Request, c Change) bool {
	a, b := p.sides[older], p.sides[newer]
	for i := 0; ; i++ {
		if x, y := p.results[older], p.results[newer]; (x.counts() || y.counts()) && a.confirms(r, p.now, &x) && b.confirms(r, p.now, &y) {
			c.Example = r
			p.found = append(p.found, c)
			return true
		}
		if !(a.percent() || b.percent()) || p.space.spread == nil || p.samples == 0 {
			return false
		}
		p.samples--
		p.space.spread.set(r, p.space.spread.sample(i))
		again := p.differences(r)
		at := slices.IndexFunc(again, func(o Change) bool { return o.What == c.What })
		if at < 0 {
			return false
		}
		c = again[at]
	}
}

// percent reports whether a rule is for some keys.
func (s *side) percent() bool { return s.rule != nil && s.rule.Match.Percent.To > 0 }
