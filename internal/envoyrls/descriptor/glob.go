package descriptor

import (
	"slices"
	"strings"
)

// glob is a pattern in which each * stands for zero or more bytes, cut at its
// stars: parts[0] begins the value, the last part ends it, those between follow
// one another in it. It has two parts or more, empty ones only at its ends.
type glob struct{ parts []string }

// newGlob cuts a pattern that has at least one star.
func newGlob(pattern string) glob {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	inner := slices.DeleteFunc(parts[1:last:last], func(part string) bool { return part == "" })
	return glob{slices.Concat(parts[:1], inner, []string{pattern[strings.LastIndexByte(pattern, '*')+1:]})}
}

func (g glob) prefix() string { return g.parts[0] }

// match takes each part between the ends where it first occurs. What is left for
// the parts behind it is then as long as it can be, so no other choice has to be
// tried, and the value is read once.
func (g glob) match(value string) bool {
	last := len(g.parts) - 1
	begin, end := g.parts[0], g.parts[last]
	if len(value) < len(begin)+len(end) || !strings.HasPrefix(value, begin) || !strings.HasSuffix(value, end) {
		return false
	}
	value = value[len(begin) : len(value)-len(end)]
	for _, part := range g.parts[1:last] {
		at := strings.Index(value, part)
		if at < 0 {
			return false
		}
		value = value[at+len(part):]
	}
	return true
}

// wildcards are the children of a node that have the same key and a wildcard. They
// are kept by what their pattern begins with, so that a look-up tries only those
// whose beginning is the value's.
type wildcards struct {
	byPrefix map[string][]*Level // each in file order
	lengths  []int               // of the prefixes that there are, ascending, each once
}

func (w *wildcards) add(c *Level) {
	prefix := c.glob.prefix()
	w.byPrefix[prefix] = append(w.byPrefix[prefix], c)
	if at, found := slices.BinarySearch(w.lengths, len(prefix)); !found {
		w.lengths = slices.Insert(w.lengths, at, len(prefix))
	}
}

// first returns the first in the file that matches value, or nil. It costs a map
// access for each length of prefix and a comparison for each pattern whose prefix
// is the value's, not one for each pattern.
func (w *wildcards) first(value string) *Level {
	var best *Level
	for _, n := range w.lengths {
		if n > len(value) {
			break
		}
		for _, c := range w.byPrefix[value[:n]] {
			if best != nil && c.order > best.order {
				break
			}
			if c.glob.match(value) {
				best = c
				break
			}
		}
	}
	return best
}
