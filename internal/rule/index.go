package rule

import (
	"math/bits"
	"slices"
)

// index narrows the rules down before they are evaluated, so that hundreds of
// rules cost little more than those that apply. It holds sets of rules as bit
// strings of equal length, one bit for each rule in order; what it lets through
// still has to be evaluated.
type index struct {
	words  int
	narrow bool     // there are paths to which no rule but Exempt ones applies
	always []uint64 // rules whose path may have any first segment
	// paths has the other rules by the spelling in which they compare the path; nil if
	// there are none.
	paths [spellings]*paths
}

// paths are rules by what their paths begin with.
type paths struct {
	exact map[string][]uint64 // rules with this exact path
	first map[string][]uint64 // rules with a prefix or a template that begins with this segment
}

// newIndex indexes the rules that are not off. The first ones are exempt.
func newIndex(rules []Rule, exempt int) index {
	x := index{words: (len(rules) + 63) / 64}
	x.always = make([]uint64, x.words)
	for i := exempt; i < len(rules); i++ {
		if rules[i].Mode != Off {
			x.add(i, &rules[i].Match)
		}
	}
	x.narrow = !slices.ContainsFunc(x.always, func(w uint64) bool { return w != 0 })
	for i := range exempt {
		x.add(i, &rules[i].Match)
	}
	return x
}

// exemptFirst moves the exempt rules to the front, and leaves all in their order otherwise. It
// returns how many there are.
func exemptFirst(rules []Rule) (n int) {
	for i := range rules {
		if rules[i].Mode == Exempt {
			r := rules[i]
			copy(rules[n+1:i+1], rules[n:i])
			rules[n] = r
			n++
		}
	}
	return n
}

// Lifts reports whether an exempt rule is about the rule of this name, as a set has it.
func (r *Rule) Lifts(name string) bool {
	return len(r.Exempts) == 0 || slices.Contains(r.Exempts, Written(name))
}

// lift gives the exempt rules, which are the first, those that they lift.
func (s *Set) lift() {
	for i := range s.exempt {
		lifts := make([]uint64, s.index.words)
		for j := s.exempt; j < len(s.rules); j++ {
			if s.rules[i].Lifts(s.rules[j].Name) {
				s.index.set(lifts, j)
			}
		}
		s.evaluators[i].lifts = lifts
	}
}

func (x *index) add(i int, m *Match) {
	if len(m.Paths) == 0 {
		x.set(x.always, i)
		return
	}
	in := x.paths[m.Ignore]
	if in == nil {
		in = &paths{exact: map[string][]uint64{}, first: map[string][]uint64{}}
		x.paths[m.Ignore] = in
	}
	for _, p := range m.Paths {
		arg := string(m.Ignore.append(nil, p.Arg))
		segment, whole := firstSegment(string((m.Ignore &^ IgnoreTrailingSlash).append(nil, p.Arg)))
		switch {
		case p.Op == OpExact:
			x.setIn(in.exact, arg, i)
		case p.Op == OpPrefix && whole, p.Op == OpTemplate && whole && !IsPlaceholder(segment):
			x.setIn(in.first, segment, i)
		default:
			x.set(x.always, i)
		}
	}
}

func (x *index) set(bits []uint64, i int) { bits[i/64] |= 1 << (i % 64) }

func (x *index) setIn(m map[string][]uint64, key string, i int) {
	if m[key] == nil {
		m[key] = make([]uint64, x.words)
	}
	x.set(m[key], i)
}

// each calls f with every rule that may apply, in order.
func (x *index) each(q *view, f func(i int)) {
	var found [2 * spellings][]uint64
	sets := found[:0]
	for s, in := range x.paths {
		switch {
		case in == nil:
		case s == 0: // spares the copy
			sets = appendFound(sets, in, q.path)
		default:
			sets = appendFound(sets, in, q.spelled(Spelling(s)))
		}
	}
	for w, rules := range x.always {
		for _, set := range sets {
			rules |= set[w]
		}
		for ; rules != 0; rules &= rules - 1 {
			f(w*64 + bits.TrailingZeros64(rules))
		}
	}
}

// appendFound appends the rules that may apply to a path.
func appendFound[T string | []byte](sets [][]uint64, in *paths, path T) [][]uint64 {
	if set := in.exact[string(path)]; set != nil {
		sets = append(sets, set)
	}
	if segment, whole := firstSegment(path); whole {
		if set := in.first[string(segment)]; set != nil {
			sets = append(sets, set)
		}
	}
	return sets
}

// firstSegment returns "v1" of "/v1/users"; whole is false if no '/' ends it, as
// in "/v1", which as a prefix also holds for "/v10".
func firstSegment[T string | []byte](path T) (segment T, whole bool) {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			return path[1:i], true
		}
	}
	return path[:0], false
}
