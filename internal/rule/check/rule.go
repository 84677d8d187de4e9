package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

func (c *checker) rule(r *rule.Rule) {
	c.ruleName(r.Name)
	c.match("match", &r.Match)
	if r.Mode == rule.Exempt {
		c.reject(percents(&r.Match), "match", "percent selects keys, and an exempt rule has no key; leave percent out")
		return
	}
	if r.Shed != nil {
		c.shed(r)
		return
	}
	c.reject(r.Hash && len(r.Key) == 0, "hash", "has no effect without a key; leave it out", "key")
	c.reject(len(r.Exempts) > 0, "exempts", "is only for mode: exempt; leave it out, or write mode: exempt", "mode")
	c.key(r)
	if len(r.Key) == 0 && (percents(&r.Match) || slices.ContainsFunc(r.Limits, func(v rule.Variant) bool { return percents(&v.When) })) {
		c.add("key", "is the same for all requests, and percent selects keys; write the parts of a key, such as [client_ip], or leave percent out")
	}
	c.cost(r.Cost)
	c.count(&r.Count)
	c.onFailure(r)
	c.period("timeout", r.Timeout, timeoutRange)
	c.period("lease.interval", r.LeaseInterval, intervalRange)
	c.response(r)
	c.limits(r)
	c.keyLimits(r)
	c.combinations(r)
}

// percents reports whether a condition is about the key of a request.
func percents(m *rule.Match) bool {
	return m.Percent != rule.Percent{} || slices.ContainsFunc(m.Not, func(not rule.Match) bool { return not.Percent != rule.Percent{} })
}

// exempts checks which rules exempt rules lift; names are those of all rules.
func (c *checker) exempts(rules []rule.Rule, names map[string]int) {
	for i := range rules {
		names[rule.Written(rules[i].Name)] = i
	}
	for i := range rules {
		c.path = strict.Index("rules", i)
		for j, name := range rules[i].Exempts {
			of, known := names[name]
			if !known || rule.Written(name) != name || rules[of].Mode == rule.Exempt {
				c.add(strict.Index("exempts", j), strict.Quote(name)+" is not a rule with a limit or shed in this file; write the name of one")
			}
		}
	}
}

// ruleName checks the name of a rule, with the suffixes of one that was expanded.
func (c *checker) ruleName(name string) {
	parts := strings.Split(name, "@")
	c.name("name", parts[0])
	c.reject(len(parts)-1 > rule.MaxSuffixes, "name", strict.Quote(name)+" has too many @")
	for _, suffix := range parts[1:] {
		if flaw := NameFlaw(suffix, rule.MaxSuffix); flaw != "" {
			c.add("name", flaw)
		}
	}
}

func (c *checker) name(field, name string) {
	if flaw := NameFlaw(name, rule.MaxName); flaw != "" {
		c.add(field, flaw)
	}
}

// NameFlaw is what is wrong with a name of at most so many bytes, and what to write instead;
// empty: nothing.
func NameFlaw(name string, most int) string {
	want := "; write 1 to " + strconv.Itoa(most) + " letters, digits, - or _"
	switch {
	case name == "":
		return "is empty" + want
	case len(name) > most:
		return strict.Quote(name) + " has " + strconv.Itoa(len(name)) + " bytes" + want
	case strings.ContainsFunc(name, func(r rune) bool { return !rule.IsNameRune(r) }):
		return strict.Quote(name) + " has other characters" + want
	}
	return ""
}

// overrideName checks the name of the override i, if it has one; names are those before it.
func (c *checker) overrideName(names map[string]int, name string, i int) {
	if name == "" {
		return
	}
	field := strict.Index("overrides", i) + ".name"
	c.name(field, name)
	if first, taken := names[name]; taken {
		c.taken(field, strict.Quote(name)+" is taken; write a name that no other override of this rule has", c.at(strict.Index("overrides", first)+".name"))
	} else {
		names[name] = i
	}
}

func (c *checker) cost(cost rule.Cost) {
	field := "cost"
	if cost.Actual.Stated() {
		field = "cost.estimate"
		c.actual(&cost)
	}
	if cost.By.Name == "" {
		c.reject(cost.Max != 0, field+".max", "is only for a cost from a header or metadata; leave it out, or add header")
		return
	}
	c.nameOf(cost.By.From, field+"."+cost.By.From.String(), cost.By.Name)
	switch {
	case cost.Max == 0:
		c.add(field+".max", "is missing; write the most that the "+cost.By.From.String()+" may state, so that no client can use up the limit with one request")
	case cost.Default > cost.Max:
		c.add(field+".default", strconv.FormatInt(cost.Default, 10)+" is more than max; write 1 to "+strconv.FormatInt(cost.Max, 10), field+".max")
	}
}

func (c *checker) onFailure(r *rule.Rule) {
	if r.DenyStatus != 0 && r.DenyStatus != 429 && r.DenyStatus != 503 {
		c.add("on_failure.status", strconv.Itoa(r.DenyStatus)+" is out of range; write "+StatusForms)
	}
	c.reject(r.DenyStatus != 0 && r.OnFailure != lease.FailureDeny, "on_failure.status",
		"is only for action: deny; leave it out, or write action: deny", "on_failure.action")
	c.reject(r.ExpectedPoPs != 0 && r.OnFailure != lease.FailureLocal, "on_failure.expected_pops",
		"is only for action: local; leave it out, or write action: local", "on_failure.action")
}

// regions checks the regions of a set.
func (c *checker) regions(rs rule.Regions) {
	c.atMost("regions", len(rs), rule.MaxRegions, "regions")
	for _, r := range rs {
		c.reject(!rule.IsRegion(r.Name), strict.Join("regions", r.Name), "is no name of a region; write "+rule.RegionForm)
	}
}
