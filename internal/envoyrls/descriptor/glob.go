package descriptor

import (
	"slices"
	"strings"
)

// glob is a pattern in which each * stands for zero or more bytes, cut at its
// stars: its first part begins the value, the last one ends it, those between follow
// one another in it. It has two parts or more, empty ones only at its ends.
type glob []string

// newGlob cuts a pattern that has at least one star.
func newGlob(pattern string) glob {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	inner := slices.DeleteFunc(parts[1:last:last], func(part string) bool { return part == "" })
	return slices.Concat(parts[:1], inner, parts[last:])
}

// match takes each part between the ends where it first occurs. What is left for
// the parts behind it is then as long as it can be, so no other choice has to be
// tried, and the value is read once.
func (g glob) match(value string) bool {
	last := len(g) - 1
	begin, end := g[0], g[last]
	if len(value) < len(begin)+len(end) || !strings.HasPrefix(value, begin) || !strings.HasSuffix(value, end) {
		return false
	}
	value = value[len(begin) : len(value)-len(end)]
	for _, part := range g[1:last] {
		at := strings.Index(value, part)
		if at < 0 {
			return false
		}
		value = value[at+len(part):]
	}
	return true
}
