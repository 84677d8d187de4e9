package lint

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/ip"
)

// Covers reports whether outer holds wherever inner does; false where that is not plain to see, as with two expressions.
// Both are conditions of one rule, or of rules whose percents are of the same keys.
func Covers(outer, inner *rule.Match) bool {
	if outer.Ignore != inner.Ignore && len(outer.Paths)+len(outer.Methods) > 0 ||
		outer.TrustedHops != inner.TrustedHops && len(outer.Clients) > 0 || // they say how the others compare
		outer.Percent != inner.Percent && outer.Percent.To > 0 ||
		outer.Until != inner.Until && outer.Until != 0 {
		return false
	}
	for i, f := range outer.Fields() {
		if !each(*f.List, *inner.Fields()[i].List, narrows) {
			return false
		}
	}
	return anyOf(outer.Methods, inner.Methods, equal) && anyOf(outer.Regions, inner.Regions, equal) &&
		anyOf(outer.Hosts, inner.Hosts, hasHost) && anyOf(outer.Clients, inner.Clients, hasNetwork) &&
		anyOf(outer.Paths, inner.Paths, func(o, i rule.Text) bool {
			return o == i || (inner.Ignore == 0 || o.Op != rule.OpRegex) && contains(o, i)
		}) &&
		each(outer.Not, inner.Not, func(o, i rule.Match) bool { return Covers(&i, &o) })
}

// each reports whether each item of a list has one of another list that fits it.
func each[T any](list, in []T, fits func(T, T) bool) bool {
	return !slices.ContainsFunc(list, func(a T) bool { return !slices.ContainsFunc(in, func(b T) bool { return fits(a, b) }) })
}

// anyOf reports whether each of some alternatives is contained in an outer one; no alternatives are all there are.
func anyOf[T any](outer, inner []T, contains func(outer, inner T) bool) bool {
	return len(outer) == 0 || len(inner) > 0 && each(inner, outer, func(i, o T) bool { return contains(o, i) })
}

func equal(a, b string) bool { return a == b }

func narrows(outer, inner rule.Named) bool {
	return outer.Name == inner.Name && contains(outer.Text, inner.Text)
}

func hasHost(outer, inner string) bool {
	return outer == inner || outer[0] == '*' && len(inner) >= len(outer) && strings.HasSuffix(inner, outer[1:])
}

func hasNetwork(outer, inner ip.Prefix) bool {
	wide, narrow := netip.MustParsePrefix(outer.String()), netip.MustParsePrefix(inner.String())
	return wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
}

// contains reports whether it is plain to see that a text which fulfils the inner condition fulfils the outer one.
func contains(outer, inner rule.Text) bool {
	switch outer.Op {
	case rule.OpPresent:
		return inner.Op != rule.OpAbsent
	case rule.OpPrefix:
		return strings.HasPrefix(start(inner), outer.Arg)
	case rule.OpRegex:
		return outer == inner || inner.Op == rule.OpExact && regexp.MustCompile(rule.Whole(outer.Arg)).MatchString(inner.Arg) // checked
	case rule.OpTemplate:
		return (inner.Op == rule.OpExact || inner.Op == rule.OpTemplate) && sameSegments(outer.Arg, inner.Arg)
	}
	return outer == inner
}

// start is what a text begins with that fulfils a condition.
func start(t rule.Text) string {
	switch t.Op {
	case rule.OpTemplate:
		t.Arg, _, _ = strings.Cut(t.Arg, "{")
	case rule.OpRegex:
		return ""
	}
	return t.Arg
}

// sameSegments compares two paths, of which a placeholder in the first one is like any segment.
func sameSegments(template, path string) bool {
	return slices.EqualFunc(strings.Split(template, "/"), strings.Split(path, "/"), func(a, b string) bool {
		return a == b || rule.IsPlaceholder(a) && b != ""
	})
}
