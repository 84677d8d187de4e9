// Package check defines which rules are legal: every mistake names its field, what is allowed there, and what to write
// instead. Package read checks each value against the words of the language and its range. This package checks texts and
// durations, and conditions on several fields.
//
// It is part of the Envoy filter, see package rule.
package check

import (
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Range is a range of legal values, ends included.
type Range struct{ Low, High int64 }

func (r Range) String() string {
	return strconv.FormatInt(r.Low, 10) + " to " + strconv.FormatInt(r.High, 10)
}

// The ranges of numbers in the language.
var (
	CountRange      = Range{0, limit.MaxCount}
	BurstRange      = Range{1, limit.MaxCount}
	CostRange       = Range{1, limit.MaxCount}
	OverdraftRange  = Range{1, limit.MaxCount}
	PoPsRange       = Range{1, 100_000}
	RevisionRange   = Range{1, 1<<53 - 1} // what every reader of JSON can hold
	HopsRange       = Range{0, 16}
	WeightRange     = Range{1, 1000}
	AnchorRange     = Range{1, 31} // days of a month
	IPv6PrefixRange = Range{1, 128}
	PercentRange    = Range{1, 99}
	SeedRange       = Range{0, 1<<53 - 1} // likewise
	JitterRange     = Range{0, 100}       // percent
	CapacityRange   = Range{1, rule.MaxCapacity}
	SuccessRange    = Range{1, 100} // percent
	ShareRange      = Range{1, 100} // percent

	RejectionStatusRange = Range{400, 599}
	GRPCStatusRange      = Range{1, 16}

	CountedStatusRange     = Range{200, 599}
	CountedGRPCStatusRange = Range{0, 16}

	timeoutRange   = Range{int64(limit.Millisecond), int64(limit.Second)}
	intervalRange  = Range{int64(100 * limit.Millisecond), int64(10 * limit.Second)}
	maxStreamRange = Range{int64(limit.Second), int64(settle.MostStream)}
	ttlRange       = Range{int64(100 * limit.Millisecond), int64(10 * limit.Minute)}
	blockRange     = Range{int64(limit.Second), int64(limit.MaxBlock)}
	periodRange    = Range{int64(limit.Millisecond), int64(limit.MaxPeriod)}
)

// Problem is a mistake in a rule.
type Problem struct {
	Path   string   // of the field, as in a rules file
	Reason string   // what is wrong, what is allowed, what to write instead
	Uses   []string // the other fields that the problem depends on
	Other  string   // another field that the problem is about
}

// Text is the reason with the other field, if there is one, which is called other.
func (p *Problem) Text(other string) string {
	if p.Other == "" {
		return p.Reason
	}
	return p.Reason + "; the first is " + other
}

// Rules checks rules and regions. It makes a set of them with this seed, which is in SeedRange, or
// returns all their mistakes.
func Rules(rules []rule.Rule, regions rule.Regions, seed uint64) (*rule.Set, []Problem) {
	rules, regions = normal(rules), sorted(regions)
	c := checker{shares: len(regions) > 0}
	c.regions(regions)
	c.atMost("rules", len(rules), rule.MaxRules, "rules")
	keys, sheds := 0, 0
	for i := range rules {
		if keys += len(rules[i].Keys); rules[i].Shed != nil {
			sheds++
		}
	}
	c.atMost("rules", sheds, rule.MaxSheds, "rules with shed")
	c.atMost("rules", keys, rule.MaxKeyLimits, "overrides with key")
	names := map[string]int{}
	for i := range rules {
		c.path = strict.Index("rules", i)
		c.rule(&rules[i])
		name := rules[i].Name
		first, taken := names[name]
		switch {
		case !taken:
			names[name] = i
		case name != "":
			c.taken("name", strict.Quote(name)+" is taken; write a name that no other rule has", strict.Index("rules", first)+".name")
		}
	}
	c.exempts(rules, names)
	if len(c.found) > 0 {
		return nil, c.found
	}
	return rule.NewSet(rules, regions, seed), nil
}

// StatusForms are the statuses that on_failure may have.
const StatusForms = "503 (our fault) or 429 (too many requests)"

// checker collects problems. Paths given to its methods are below path.
type checker struct {
	path   string
	shares bool // the set has regions with shares
	steps  int  // of the regular expressions so far, see large
	found  []Problem
}

// add reports a problem of a field; uses are the other fields it depends on. It
// and the two below are called from so many places that the filter would be 100 kB larger if
// the compiler inlined them.
//
//go:noinline
func (c *checker) add(field, reason string, uses ...string) {
	for i := range uses {
		uses[i] = c.at(uses[i])
	}
	c.found = append(c.found, Problem{Path: c.at(field), Reason: reason, Uses: uses})
}

// reject reports a problem if there is one.
//
//go:noinline
func (c *checker) reject(wrong bool, field, reason string, uses ...string) {
	if wrong {
		c.add(field, reason, uses...)
	}
}

//go:noinline
func (c *checker) at(field string) string {
	if c.path == "" {
		return field
	}
	return c.path + "." + field
}

// period checks a duration of which 0 means the default, and reports whether it is
// legal.
func (c *checker) period(field string, value limit.Micros, in Range) bool {
	legal := value == 0 || in.Low <= int64(value) && int64(value) <= in.High
	if !legal {
		c.add(field, rule.FormatPeriod(value)+" is out of range; write "+rule.FormatPeriod(limit.Micros(in.Low))+" to "+rule.FormatPeriod(limit.Micros(in.High)))
	}
	return legal
}

// atMost rejects more than so many things of a kind.
func (c *checker) atMost(field string, n, most int, things string) {
	if n > most {
		c.add(field, "has "+strconv.Itoa(n)+" "+things+"; write at most "+strconv.Itoa(most))
	}
}

// taken reports that what must be unique is so no longer; first is the field that had it first.
func (c *checker) taken(field, reason, first string) {
	c.add(field, reason)
	c.found[len(c.found)-1].Other = first
}
