package check

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
)

// normal returns a copy of rules in which what has several spellings has one.
func normal(rules []rule.Rule) []rule.Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		r := &rules[i]
		r.Match = normalMatch(r.Match)
		r.Cost.By = normalPart(rule.Part{r.Cost.By})[0]
		if a := &r.Cost.Actual; a.From == settle.FromHeader || a.From == settle.FromTrailer {
			a.Name = strings.ToLower(a.Name)
		}
		r.Count = settle.Count{Status: ascending(r.Count.Status), GRPCStatus: ascending(r.Count.GRPCStatus)}
		normalShed(r)
		r.Limits = slices.Clone(r.Limits)
		for j := range r.Limits {
			r.Limits[j].When = normalMatch(r.Limits[j].When)
			if r.Limits[j].Unlimited {
				r.Limits[j].Limit = r.Limits[0].Limit
			}
		}
		r.Key = slices.Clone(r.Key)
		for j, p := range r.Key {
			r.Key[j] = normalPart(p)
		}
		r.Keys = slices.Clone(r.Keys)
		for j := range r.Keys {
			if r.Keys[j].Unlimited && len(r.Limits) > 0 {
				r.Keys[j].Limit = r.Limits[0].Limit
			}
		}
		for s := range r.Specs() {
			s.Reserves = s.Block > 0 && r.Settles()
		}
	}
	return rules
}

func normalMatch(m rule.Match) rule.Match {
	m.Hosts = slices.Clone(m.Hosts)
	for i, h := range m.Hosts {
		m.Hosts[i] = strings.TrimSuffix(strings.ToLower(h), ".")
	}
	for _, f := range m.Fields() {
		list := slices.Clone(*f.List)
		for i := range list {
			if f.From == rule.FromHeader {
				list[i].Name = strings.ToLower(list[i].Name)
			}
			for j := i; j > 0 && list[j].Name < list[j-1].Name; j-- { // few, and slices.SortFunc costs 7 kB
				list[j], list[j-1] = list[j-1], list[j]
			}
		}
		*f.List = list
	}
	m.Not = slices.Clone(m.Not)
	for i := range m.Not {
		m.Not[i] = normalMatch(m.Not[i])
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

// ascending returns a sorted copy of statuses.
func ascending(statuses []int) []int {
	statuses = slices.Clone(statuses)
	for i := range statuses { // few, as in sorted
		for j := i; j > 0 && statuses[j] < statuses[j-1]; j-- {
			statuses[j], statuses[j-1] = statuses[j-1], statuses[j]
		}
	}
	return statuses
}

// sorted returns a copy of regions in the order of their names.
func sorted(regions rule.Regions) rule.Regions {
	regions = slices.Clone(regions)
	for i := range regions { // few, as in byName
		for j := i; j > 0 && regions[j].Name < regions[j-1].Name; j-- {
			regions[j], regions[j-1] = regions[j-1], regions[j]
		}
	}
	return regions
}
