package rule

import "math/bits"

// index narrows the rules down before they are evaluated, so that hundreds of
// rules cost little more than those that apply. It holds sets of rules as bit
// strings of equal length, one bit for each rule in order; what it lets through
// still has to be evaluated.
type index struct {
	words  int
	always []uint64 // rules whose path may have any first segment
	plain  paths    // rules that compare the path as it is
	// others has the rules that compare it as they spell it, by their spelling; nil
	// if there are none.
	others [spellings]*paths
	any    bool // whether there are others
}

// paths are rules by what their paths begin with.
type paths struct {
	exact map[string][]uint64 // rules with this exact path
	first map[string][]uint64 // rules with a prefix or a template that begins with this segment
}

func newPaths() paths {
	return paths{exact: map[string][]uint64{}, first: map[string][]uint64{}}
}

// newIndex indexes the rules that are not off.
func newIndex(rules []Rule) index {
	x := index{words: (len(rules) + 63) / 64, plain: newPaths()}
	x.always = make([]uint64, x.words)
	for i := range rules {
		if rules[i].Mode != Off {
			x.add(i, &rules[i].Match)
		}
	}
	return x
}

func (x *index) add(i int, m *Match) {
	if len(m.Paths) == 0 {
		x.set(x.always, i)
	}
	spelling, in := m.spelling(), &x.plain
	if spelling != 0 {
		if x.others[spelling] == nil {
			others := newPaths()
			x.others[spelling], x.any = &others, true
		}
		in = x.others[spelling]
	}
	for _, p := range m.Paths {
		arg := string(spelling.append(nil, p.Arg))
		segment, whole := firstSegment(string((spelling &^ anySlash).append(nil, p.Arg)))
		switch {
		case p.Op == OpExact:
			x.setIn(in.exact, arg, i)
		case p.Op == OpPrefix && whole, p.Op == OpTemplate && whole && !isPlaceholder(segment):
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
	if len(x.plain.exact) > 0 {
		sets = append(sets, x.plain.exact[q.path])
	}
	if len(x.plain.first) > 0 {
		if segment, whole := firstSegment(q.path); whole {
			sets = append(sets, x.plain.first[segment])
		}
	}
	if x.any {
		sets = x.spelled(sets, q)
	}
	for w, rules := range x.always {
		for _, set := range sets {
			if set != nil {
				rules |= set[w]
			}
		}
		for ; rules != 0; rules &= rules - 1 {
			f(w*64 + bits.TrailingZeros64(rules))
		}
	}
}

// spelled appends the rules that may apply to the path as they spell it.
func (x *index) spelled(sets [][]uint64, q *view) [][]uint64 {
	for s, in := range x.others {
		if in == nil {
			continue
		}
		path := q.spelled(spelling(s))
		sets = append(sets, in.exact[string(path)])
		if segment, whole := firstSegment(path); whole {
			sets = append(sets, in.first[string(segment)])
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
