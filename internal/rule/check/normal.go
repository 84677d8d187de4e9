package check

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
)

// normal returns a copy of rules in which what has several spellings has one.
func normal(rules []rule.Rule) []rule.Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		r := &rules[i]
		r.Match = normalMatch(r.Match)
		r.Cost.Header = strings.ToLower(r.Cost.Header)
		r.Limits = slices.Clone(r.Limits)
		for j := range r.Limits {
			r.Limits[j].When = normalMatch(r.Limits[j].When)
		}
		r.Key = slices.Clone(r.Key)
		for j, p := range r.Key {
			r.Key[j] = normalPart(p)
		}
		r.Keys = slices.Clone(r.Keys)
	}
	return rules
}

func normalMatch(m rule.Match) rule.Match {
	m.Hosts = slices.Clone(m.Hosts)
	for i, h := range m.Hosts {
		m.Hosts[i] = strings.TrimSuffix(strings.ToLower(h), ".")
	}
	m.Headers = slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Name = strings.ToLower(m.Headers[i].Name)
	}
	for i := range m.Headers { // few, and slices.SortFunc costs 7 kB
		for j := i; j > 0 && m.Headers[j].Name < m.Headers[j-1].Name; j-- {
			m.Headers[j], m.Headers[j-1] = m.Headers[j-1], m.Headers[j]
		}
	}
	return m
}

func normalPart(p rule.Part) rule.Part {
	p = slices.Clone(p)
	for i := range p {
		if p[i].From == rule.FromHeader {
			p[i].Name = strings.ToLower(p[i].Name)
		}
	}
	return p
}

// sorted returns a copy of regions in the order of their names.
func sorted(regions rule.Regions) rule.Regions {
	regions = slices.Clone(regions)
	slices.SortStableFunc(regions, func(a, b rule.Region) int { return strings.Compare(a.Name, b.Name) })
	return regions
}
