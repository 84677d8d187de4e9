package rulediff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

const (
	allTries   = 400_000 // requests that are tried, for all rules together
	leastTries = 400     // for one rule
	mostTries  = 10_000  // for one rule
	mostPlaces = 3       // in which such a request differs from one that fulfils a match
)

// side is one version of a rule.
type side struct {
	*version
	at   int        // of the rule in the set
	rule *rule.Rule // nil: there is none
	q    rule.Request
	m    rule.Matches
}

func (s *side) counts() bool {
	return s.rule != nil && s.rule.Mode != rule.Off && s.rule.Mode != rule.Exempt
}

// lifting are the exempt rules of this version alone that are about the rule.
func (s *side) lifting() (all []*rule.Rule) {
	for _, e := range s.only {
		if s.rule != nil && (len(e.From) == 0 || slices.Contains(e.From, rule.Written(s.rule.Name))) {
			all = append(all, e)
		}
	}
	return all
}

// outcome is what a version of a rule does with a request.
type outcome struct {
	hit     bool
	lifted  string // why it does not count it, if an exempt rule lifts it
	limit   string // which of its limits
	variant uint64 // see rule.Set.Override
	key     string
}

func (s *side) outcome(r *request.Request, now limit.Micros) (o outcome) {
	if s.rule == nil {
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
		if v := &s.rule.Limits[hit.Variant]; hit.Variant > 0 {
			o.limit = strings.TrimSpace(v.Name + " " + rule.FormatLimit(v.Limit))
		}
	}
	return o
}

// pair is two versions of a rule.
type pair struct {
	a, b   *side
	places places
	now    limit.Micros
	open   map[string]bool // what may differ, and was not found yet
	found  []Change
}

// newPair finds out what there is to look for.
func newPair(a, b *side, now limit.Micros) *pair {
	p := &pair{a: a, b: b, now: now, open: map[string]bool{wider: b.counts(), narrower: a.counts()}}
	if a.counts() && b.counts() {
		p.open = map[string]bool{
			wider: !within(b, a), narrower: !within(a, b), override: !sameOverrides(a.rule, b.rule), keyed: !sameKey(a, b),
		}
	}
	return p
}

// within reports whether it is plain to see that b counts all requests that a counts.
func within(a, b *side) bool {
	return covers(&b.rule.Match, &a.rule.Match) && hasKey(b.rule.Key, a.rule.Key) &&
		!slices.ContainsFunc(b.lifting(), func(e *rule.Rule) bool { return !apart(&e.Match, &a.rule.Match) }) &&
		(sameOverrides(a.rule, b.rule) || !slices.ContainsFunc(b.rule.Limits, func(v rule.Variant) bool { return v.Unlimited }))
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

// search tries requests that fulfil one of the matches, then those that differ from them in one place, in two and in
// three.
func (p *pair) search(tries int) {
	if !p.searches() {
		return
	}
	p.look()
	var bases [2][]int
	for _, at := range p.places.list {
		for side := range bases {
			bases[side] = append(bases[side], at.base[side])
		}
	}
	for places := range mostPlaces + 1 {
		for _, base := range bases {
			if !p.near(base, 0, places, func(at []int) bool {
				p.judge(p.places.request(at))
				tries--
				return tries > 0 && p.searches()
			}) {
				return
			}
		}
	}
}

// look finds the places that both versions look at.
func (p *pair) look() {
	percent, sides := false, []*side{p.a, p.b}
	slices.SortFunc(sides, func(x, y *side) int { return cmp.Compare(x.set.Version, y.set.Version) }) // whichever is the older one
	p.places.spellings = map[rule.Spelling]bool{}
	for i, s := range sides {
		if s.counts() {
			p.places.match(&s.rule.Match, i)
			percent = percent || s.rule.Match.Percent.To > 0
		}
	}
	for _, s := range sides {
		for _, e := range s.lifting() {
			p.places.match(&e.Match, others)
		}
		if s.counts() {
			for i := range s.rule.Limits {
				p.places.match(&s.rule.Limits[i].When, others)
			}
		}
	}
	for _, s := range sides {
		if s.counts() {
			p.places.key(s.rule.Key)
		}
	}
	p.places.finish(percent)
}

// near tries all values in some places from one on, and leaves the others as they are. It reports whether to go on.
func (p *pair) near(at []int, from, places int, try func(at []int) bool) bool {
	if places == 0 {
		return try(at)
	}
	for i := from; i < len(at); i++ {
		base := at[i]
		for v := range p.places.list[i].values {
			if at[i] = v; v != base && !p.near(at, i+1, places-1, try) {
				return false
			}
		}
		at[i] = base
	}
	return true
}

// judge keeps what both versions do otherwise with a request, if it is looked for.
func (p *pair) judge(r *request.Request) {
	a, b := p.a.outcome(r, p.now), p.b.outcome(r, p.now)
	add := func(what, was, is string) {
		if p.open[what] {
			p.open[what] = false
			p.found = append(p.found, Change{What: what, Old: was, New: is, Example: r})
		}
	}
	switch {
	case !a.hit && b.hit:
		add(wider, a.lifted, "")
	case a.hit && !b.hit:
		add(narrower, "", b.lifted)
	case a.hit:
		if a.variant != b.variant {
			add(override, a.limit, b.limit)
		}
		if a.key != b.key {
			add(keyed, a.key, b.key)
		}
	}
}

// undecided lists what may differ, and was not found. That a key or an override is stated otherwise is enough.
func (p *pair) undecided(changes []Change) string {
	field := map[string]string{keyed: "key", override: "override "}
	var kinds []string
	for kind, open := range p.open {
		if open && !slices.ContainsFunc(changes, func(c Change) bool {
			return field[kind] != "" && strings.HasPrefix(c.What, field[kind])
		}) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, ", ")
}
