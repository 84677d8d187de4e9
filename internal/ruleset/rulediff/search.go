package rulediff

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

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

// pair is two versions of a rule.
type pair struct {
	a, b   *side
	places places
	now    limit.Micros
	open   map[string]bool // what may differ, and was not found yet
	found  []Difference
}

// newPair finds out what there is to look for.
func newPair(a, b *side, now time.Time) *pair {
	both := a.counts() && b.counts()
	open := map[string]bool{
		wider: !within(b, a), narrower: !within(a, b), classed: both && !sameClasses(a, b),
		override: both && limited(a, b) && !sameOverrides(a.rule, b.rule), keyed: both && limited(a, b) && !sameKey(a, b),
	}
	maps.DeleteFunc(open, func(_ string, is bool) bool { return !is })
	return &pair{a: a, b: b, places: places{known: map[rule.Source]*place{}}, now: limit.Micros(now.UnixMicro()), open: open}
}

// search tries requests that fulfil one of the matches, then those that differ from them in one place, in two and in
// three.
func (p *pair) search(tries int) {
	if len(p.open) == 0 {
		return
	}
	tries /= 1 + (len(p.a.lifting)+len(p.b.lifting))/20 // each takes time
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
				return tries > 0 && len(p.open) > 0
			}) {
				return
			}
		}
	}
}

// look finds the places that the versions which count requests look at, whichever is the older one.
func (p *pair) look() {
	sides := slices.DeleteFunc([]*side{p.a, p.b}, func(s *side) bool { return !s.counts() })
	slices.SortFunc(sides, func(x, y *side) int { return cmp.Compare(x.set.Version, y.set.Version) })
	for i, s := range sides {
		p.places.match(&s.rule.Match, i)
	}
	for _, s := range sides {
		for _, e := range s.lifting {
			p.places.match(&e.Match, others)
		}
		for i := range s.rule.Limits {
			p.places.match(&s.rule.Limits[i].When, others)
		}
		for _, c := range s.rule.ShedClasses() {
			p.places.match(&c.When, others)
		}
		if s.rule.Limited() { // else it decides about no single request
			p.places.key(s.rule.Key)
		}
	}
	p.places.finish()
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
	add := func(what, was, is, effect string, of ...*side) {
		if !p.open[what] {
			return
		}
		delete(p.open, what)
		if slices.ContainsFunc(of, func(s *side) bool { return !s.enforced() }) {
			effect = ""
		}
		p.found = append(p.found, Difference{What: what, Old: was, New: is, Effect: effect, Example: r})
	}
	switch {
	case !a.hit && b.hit:
		add(wider, a.lifted, "", stricter, p.b)
	case a.hit && !b.hit:
		add(narrower, "", b.lifted, looser, p.a)
	case a.hit:
		if a.variant != b.variant {
			add(override, a.limit, b.limit, a.room.effect(b.room), p.a, p.b)
		}
		if a.key != b.key {
			add(keyed, a.key, b.key, "")
		}
		if a.class != b.class {
			add(classed, a.class, b.class, "")
		}
	}
}

// settled are the differences for which it is enough that a field is stated otherwise.
var settled = map[string]string{"key": keyed, "override": override, "shed.classes": classed}

// undecided lists what may differ, and was not found.
func (p *pair) undecided(changes []Difference) string {
	for _, c := range changes {
		field, _, _ := strings.Cut(c.What, " ")
		delete(p.open, settled[field])
	}
	return strings.Join(slices.Sorted(maps.Keys(p.open)), ", ")
}
