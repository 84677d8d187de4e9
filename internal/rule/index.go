package rule

import "math/bits"

// index narrows the rules down before they are evaluated, so that hundreds of
// rules cost little more than those that apply. It holds sets of rules as bit
// strings of equal length, one bit for each rule in order; what it lets through
// still has to be evaluated.
type index struct {
	words  int
	always []uint64            // rules whose path says nothing about its first segment
	exact  map[string][]uint64 // rules with this exact path
	first  map[string][]uint64 // rules with a prefix that begins with this segment
}

// newIndex indexes the rules that are not off.
func newIndex(rules []Rule) index {
	x := index{
		words: (len(rules) + 63) / 64,
		exact: map[string][]uint64{},
		first: map[string][]uint64{},
	}
	x.always = make([]uint64, x.words)
	for i := range rules {
		if rules[i].Mode != Off {
			x.add(i, rules[i].Match.Paths)
		}
	}
	return x
}

func (x *index) add(i int, paths []Text) {
	if len(paths) == 0 {
		x.set(x.always, i)
	}
	for _, p := range paths {
		segment, whole := firstSegment(p.Arg)
		switch {
		case p.Op == OpExact:
			x.setIn(x.exact, p.Arg, i)
		case p.Op == OpPrefix && whole:
			x.setIn(x.first, segment, i)
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
func (x *index) each(path string, f func(i int)) {
	var exact, first []uint64
	if len(x.exact) > 0 {
		exact = x.exact[path]
	}
	if len(x.first) > 0 {
		if segment, whole := firstSegment(path); whole {
			first = x.first[segment]
		}
	}
	for w, set := range x.always {
		if exact != nil {
			set |= exact[w]
		}
		if first != nil {
			set |= first[w]
		}
		for ; set != 0; set &= set - 1 {
			f(w*64 + bits.TrailingZeros64(set))
		}
	}
}

// firstSegment returns "v1" of "/v1/users"; whole is false if no '/' ends it, as
// in "/v1", which as a prefix also holds for "/v10".
func firstSegment(path string) (segment string, whole bool) {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			return path[1:i], true
		}
	}
	return "", false
}
