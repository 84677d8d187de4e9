package rulediff

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/ruleset/lint"
)

// covers reports whether it is plain to see that outer holds wherever inner does. Percent and until are not looked at.
func covers(outer, inner *rule.Match) bool {
	out, in := *outer, *inner
	out.Percent, in.Percent, out.Until, in.Until = rule.Percent{}, rule.Percent{}, 0, 0
	for i, f := range in.Fields() {
		if wanted := *out.Fields()[i].List; !narrows(*f.List, wanted) {
			return false
		} else if len(wanted) > 0 {
			*f.List = wanted
		}
	}
	return anyOf(out.Paths, &in.Paths, func(o, t rule.Text) bool { return contains(o, t, in.Ignore|out.Ignore) }) &&
		anyOf(out.Hosts, &in.Hosts, func(o, t string) bool {
			return o == t || o[0] == '*' && len(t) >= len(o) && strings.HasSuffix(t, o[1:])
		}) &&
		anyOf(out.Clients, &in.Clients, func(o, t ip.Prefix) bool {
			wide, narrow := netip.MustParsePrefix(o.String()), netip.MustParsePrefix(t.String())
			return wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
		}) && lint.Covers(&out, &in)
}

// narrows reports whether conditions of which all must hold contain stricter ones for all that are wanted.
func narrows(list, wanted []rule.Named) bool {
	return !slices.ContainsFunc(wanted, func(o rule.Named) bool {
		return !slices.ContainsFunc(list, func(t rule.Named) bool { return o.Name == t.Name && contains(o.Text, t.Text, 0) })
	})
}

// anyOf reports whether each of some alternatives is contained in an outer one; no alternatives are all there are. It makes
// them the outer ones then.
func anyOf[T any](outer []T, inner *[]T, contains func(outer, inner T) bool) bool {
	if len(outer) == 0 {
		return true
	}
	all := len(*inner) > 0 && !slices.ContainsFunc(*inner, func(t T) bool {
		return !slices.ContainsFunc(outer, func(o T) bool { return contains(o, t) })
	})
	*inner = outer
	return all
}

// contains reports whether it is plain to see that a text which fulfils the inner condition fulfils the outer one.
func contains(outer, inner rule.Text, ignore rule.Spelling) bool {
	switch {
	case outer == inner:
		return true
	case outer.Op == rule.OpPresent:
		return inner.Op != rule.OpAbsent
	case outer.Op == rule.OpPrefix:
		start, _, _ := strings.Cut(inner.Arg, "{")
		return (inner.Op == rule.OpExact || inner.Op == rule.OpPrefix) && strings.HasPrefix(inner.Arg, outer.Arg) ||
			inner.Op == rule.OpTemplate && strings.HasPrefix(start, outer.Arg)
	case outer.Op == rule.OpRegex:
		return inner.Op == rule.OpExact && ignore == 0 && regexp.MustCompile(rule.Whole(outer.Arg)).MatchString(inner.Arg) // checked
	case outer.Op == rule.OpTemplate:
		return (inner.Op == rule.OpExact || inner.Op == rule.OpTemplate) && sameSegments(outer.Arg, inner.Arg, false)
	}
	return false
}

// sameSegments compares two paths, of which a placeholder in the first one is like any segment; one in the second if
// it says so.
func sameSegments(template, path string, both bool) bool {
	return slices.EqualFunc(strings.Split(template, "/"), strings.Split(path, "/"), func(a, b string) bool {
		return a == b || rule.IsPlaceholder(a) && b != "" || both && rule.IsPlaceholder(b) && a != ""
	})
}

// apart reports whether it is plain to see that no request fulfils both conditions.
func apart(a, b *rule.Match) bool {
	if a.Ignore|b.Ignore != 0 {
		return false
	}
	methods := func(m string) bool { return slices.Contains(b.Methods, m) }
	paths := func(x rule.Text) bool {
		return slices.ContainsFunc(b.Paths, func(y rule.Text) bool { return meet(x, y) && meet(y, x) })
	}
	return len(a.Methods) > 0 && len(b.Methods) > 0 && !slices.ContainsFunc(a.Methods, methods) ||
		len(a.Paths) > 0 && len(b.Paths) > 0 && !slices.ContainsFunc(a.Paths, paths)
}

// meet reports whether one path may fulfil both conditions.
func meet(a, b rule.Text) bool {
	switch {
	case a.Op == rule.OpExact && (b.Op == rule.OpExact || b.Op == rule.OpPrefix || b.Op == rule.OpRegex):
		return contains(b, a, 0)
	case a.Op == rule.OpPrefix && (b.Op == rule.OpPrefix || b.Op == rule.OpTemplate):
		start, _, _ := strings.Cut(b.Arg, "{")
		return strings.HasPrefix(a.Arg, start) || strings.HasPrefix(start, a.Arg)
	case a.Op == rule.OpTemplate && (b.Op == rule.OpTemplate || b.Op == rule.OpExact):
		return sameSegments(a.Arg, b.Arg, true)
	}
	return true
}

// hasKey reports whether a key is there wherever another one is: each of its parts has all sources of a part of that one.
func hasKey(key, where []rule.Part) bool {
	for _, p := range key {
		all := sources(p)
		includes := func(q rule.Part) bool {
			return !slices.ContainsFunc(sources(q), func(source string) bool { return !slices.Contains(all, source) })
		}
		if !slices.Contains(all, always) && !slices.ContainsFunc(where, includes) {
			return false
		}
	}
	return true
}

// always is a source that each request has.
const always = "always"

// sources are those of a part. A segment is there wherever the match of its rule holds.
func sources(p rule.Part) (all []string) {
	for _, s := range p {
		if s.From == rule.FromConst || s.From == rule.FromSegment {
			all = append(all, always)
		} else {
			all = append(all, fmt.Sprint(s.From, s.TrustedHops, s.Name))
		}
	}
	return all
}

// sameKey reports whether requests that both sides match have one key.
func sameKey(a, b *side) bool {
	key, x, y := a.fields[a.at]["key"].text, &a.rule.Match, &b.rule.Match
	segment := strings.Contains(key, `"segment"`)
	return key == b.fields[b.at]["key"].text && (x.Ignore == y.Ignore || !segment && !strings.Contains(key, `"path"`)) &&
		(!segment || slices.Equal(x.Paths, y.Paths))
}

// sameOverrides reports whether the overrides of both sides are for the same requests.
func sameOverrides(a, b *rule.Rule) bool {
	return slices.EqualFunc(a.Limits, b.Limits, func(x, y rule.Variant) bool {
		return x.Name == y.Name && x.Unlimited == y.Unlimited && lint.Covers(&x.When, &y.When) && lint.Covers(&y.When, &x.When)
	})
}
