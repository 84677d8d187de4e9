package rule

import (
	"errors"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Bounds of a set. They keep a set small enough to be compiled at every edge.
const (
	MaxRules        = 1000 // rules of a set
	MaxOverrides    = 64   // overrides of a rule with a condition
	MaxParts        = 8    // parts of a key
	MaxSources      = 4    // sources of a part: one, and three else
	MaxAlternatives = 64   // methods, hosts or paths of a match
	MaxName         = 64   // bytes of a rule's name
	MaxText         = 1024 // bytes of any other text

	// MaxKeyLimits bounds the overrides by key, all rules together. They stay in the tier
	// that counts.
	MaxKeyLimits = 100_000
)

// span is a range of legal values, ends included.
type span struct{ low, high int64 }

func (s span) String() string {
	return strconv.FormatInt(s.low, 10) + " to " + strconv.FormatInt(s.high, 10)
}

var (
	countRange     = span{0, limit.MaxCount}
	burstRange     = span{1, limit.MaxCount}
	costRange      = span{1, limit.MaxCount}
	overdraftRange = span{1, limit.MaxCount}
	holdersRange   = span{1, 100_000}
	revisionRange  = span{1, 1<<53 - 1} // what every reader of JSON can hold
	hopsRange      = span{0, 16}
	prefixRange    = span{1, 128}

	timeoutRange  = span{int64(limit.Millisecond), int64(limit.Second)}
	intervalRange = span{int64(100 * limit.Millisecond), int64(10 * limit.Second)}
	ttlRange      = span{int64(100 * limit.Millisecond), int64(10 * limit.Minute)}
	periodRange   = span{int64(limit.Millisecond), int64(limit.MaxPeriod)}
)

// problem is a mistake in a rule.
type problem struct {
	path   string
	reason string
	uses   []string // other fields that the problem depends on
	other  string   // another place that the problem is about
}

type problems []problem

func (ps problems) errors() strict.Errors {
	errs := make(strict.Errors, len(ps))
	for i, p := range ps {
		errs[i] = strict.Error{Path: p.path, Reason: p.reason}
	}
	return errs
}

// check returns all mistakes in the meaning of rules. Only this function defines which
// rules are legal, whatever they are read from.
func check(rules []Rule, regions Regions) problems {
	c := checker{shares: len(regions) > 0}
	c.regions(regions)
	if len(rules) > MaxRules {
		c.add("rules", "has "+strconv.Itoa(len(rules))+" rules; write at most "+strconv.Itoa(MaxRules))
	}
	keys := 0
	for i := range rules {
		keys += len(rules[i].Keys)
	}
	c.refuse(keys > MaxKeyLimits, "rules", "has "+strconv.Itoa(keys)+" overrides with key; write at most "+strconv.Itoa(MaxKeyLimits))
	names := map[string]int{}
	for i := range rules {
		c.path = strict.Index("rules", i)
		c.rule(&rules[i])
		name := rules[i].Name
		if first, ok := names[name]; !ok {
			names[name] = i
		} else if name != "" {
			c.add("name", strict.Quote(name)+" is taken; write a name that no other rule has; the first is "+strict.Index("rules", first))
			c.found[len(c.found)-1].other = strict.Join(strict.Index("rules", first), "name")
		}
	}
	return c.found
}

// checker collects problems. Paths given to its methods are below path.
type checker struct {
	path   string
	shares bool // the set has regions with shares
	found  problems
}

// add reports a problem of a field; uses are the other fields it depends on.
func (c *checker) add(field, reason string, uses ...string) {
	for i := range uses {
		uses[i] = c.at(uses[i])
	}
	c.found = append(c.found, problem{path: c.at(field), reason: reason, uses: uses})
}

// refuse reports a problem if there is one.
func (c *checker) refuse(wrong bool, field, reason string, uses ...string) {
	if wrong {
		c.add(field, reason, uses...)
	}
}

func (c *checker) at(field string) string {
	if c.path == "" {
		return field
	}
	return c.path + "." + field
}

// integer checks a number of which 0 means the default.
func (c *checker) integer(field string, value int64, in span) {
	if value != 0 && (value < in.low || value > in.high) {
		c.add(field, strconv.FormatInt(value, 10)+" is out of range; write "+in.String())
	}
}

// period checks a duration of which 0 means the default, and reports whether it is
// legal.
func (c *checker) period(field string, value limit.Micros, in span) bool {
	whole := value%limit.Millisecond == 0
	if value == 0 || whole && int64(value) >= in.low && int64(value) <= in.high {
		return true
	}
	wrong := strconv.FormatInt(int64(value), 10) + " µs is not whole milliseconds"
	if whole {
		wrong = formatPeriod(value) + " is out of range"
	}
	c.add(field, wrong+"; write "+formatPeriod(limit.Micros(in.low))+" to "+formatPeriod(limit.Micros(in.high)))
	return false
}

// word checks that a typed constant exists in the language.
func (c *checker) word(field string, value int, names []string) {
	if value >= len(names) {
		c.add(field, strconv.Itoa(value)+" is unknown; write one of "+strings.Join(names, ", "))
	}
}

func (c *checker) rule(r *Rule) {
	c.name("name", r.Name, ": it becomes part of headers and metric names")
	c.word("mode", int(r.Mode), modeNames)
	c.match("match", r.Match, matchFields)
	c.key(r.Key)
	c.cost(r.Cost)
	c.word("scope", int(r.Scope), scopeNames)
	c.word("fair", int(r.Fair), fairNames)
	c.word("consistency", int(r.Consistency), consistencyNames)
	c.integer("overdraft", r.Overdraft, overdraftRange)
	c.onFailure(r)
	c.period("timeout", r.Timeout, timeoutRange)
	c.period("lease.interval", r.LeaseInterval, intervalRange)
	c.word("x_ratelimit", int(r.XRateLimit), xRateLimitNames)
	if len(r.Limits) == 0 {
		c.add("limit", "is missing; write "+limitForms)
		return
	}
	c.limits(r)
	c.keyLimits(r)
	c.combinations(r)
}

// name checks a name; use is what else it is good for.
func (c *checker) name(field, name, use string) {
	const want = "; write 1 to 64 letters, digits, - or _"
	switch {
	case name == "":
		c.add(field, "is empty"+want)
	case len(name) > MaxName:
		c.add(field, strict.Quote(name)+" has "+strconv.Itoa(len(name))+" bytes"+want)
	case strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) }):
		c.add(field, strict.Quote(name)+" has other characters"+want+use)
	}
}

// overrideName checks the name of the variant i, if it has one.
func (c *checker) overrideName(r *Rule, i int) {
	name := r.Limits[i].Name
	if name == "" {
		return
	}
	field := ofVariant(i) + "name"
	c.name(field, name, "")
	for j := 1; j < i; j++ {
		if r.Limits[j].Name == name {
			first := ofVariant(j) + "name"
			c.add(field, strict.Quote(name)+" is taken; write a name that no other override of this rule has; the first is "+c.at(first))
			c.found[len(c.found)-1].other = c.at(first)
			return
		}
	}
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}

func (c *checker) cost(cost Cost) {
	c.integer("cost.default", cost.Default, costRange)
	c.integer("cost.max", cost.Max, costRange)
	if cost.Header == "" {
		c.refuse(cost.Max != 0, "cost.max", "is only for a cost from a header; leave it out, or add header")
		return
	}
	c.header("cost.header", cost.Header)
	switch {
	case cost.Max == 0:
		c.add("cost.max", "is missing; write the most that the header may state, so that no client can use up the limit with one request")
	case cost.Default > cost.Max:
		c.add("cost.default", strconv.FormatInt(cost.Default, 10)+" is more than max; write 1 to "+strconv.FormatInt(cost.Max, 10), "cost.max")
	}
}

func (c *checker) onFailure(r *Rule) {
	c.word("on_failure", int(r.OnFailure), onFailureNames)
	c.integer("on_failure.expected_holders", r.ExpectedHolders, holdersRange)
	if r.DenyStatus != 0 && r.DenyStatus != 429 && r.DenyStatus != 503 {
		c.add("on_failure.status", strconv.Itoa(r.DenyStatus)+" is out of range; write "+statusForms)
	}
	c.refuse(r.DenyStatus != 0 && r.OnFailure != lease.FailureDeny, "on_failure.status",
		"is only for action: deny; leave it out, or write action: deny", "on_failure.action")
	c.refuse(r.ExpectedHolders != 0 && r.OnFailure != lease.FailureLocal, "on_failure.expected_holders",
		"is only for action: local; leave it out, or write action: local", "on_failure.action")
}

// specFields are the fields of limit.Spec by its names for them: where the rule language
// has them, whether each limit of a rule has its own, and how to set one to a legal value.
var specFields = map[string]struct {
	path   string
	own    bool
	repair func(*limit.Spec)
}{
	"count":         {"limit.count", true, func(s *limit.Spec) { s.Count = 1 }},
	"period":        {"limit.per", true, func(s *limit.Spec) { s.Period = limit.Minute }},
	"burst":         {"limit.burst", true, func(s *limit.Spec) { s.Burst = 0 }},
	"algorithm":     {"algorithm", false, func(s *limit.Spec) { s.Algorithm = limit.TokenBucket }},
	"align":         {"align", false, func(s *limit.Spec) { s.Align = limit.AlignClock }},
	"min_interval":  {"min_interval", false, func(s *limit.Spec) { s.MinInterval = 0 }},
	"charge_denied": {"charge_denied", false, func(s *limit.Spec) { s.ChargeDenied = false }},
	"lease_ttl":     {"lease.ttl", false, func(s *limit.Spec) { s.LeaseTTL = 0 }},
}

func (c *checker) limits(r *Rule) {
	base := r.Limits[0].Limit
	c.period("lease.ttl", base.LeaseTTL, ttlRange)
	if n := len(r.Limits) - 1; n > MaxOverrides {
		c.add("overrides", "has "+strconv.Itoa(n)+" overrides; write at most "+strconv.Itoa(MaxOverrides))
	}
	for i, v := range r.Limits {
		prefix := ofVariant(i)
		if i > 0 {
			c.overrideName(r, i)
			c.match(prefix+"when", v.When, whenFields)
			c.refuse(v.When.empty(), prefix+"when", "is empty; write what the request must have, such as { header: { x-tier: gold } }")
			if !sameButAmount(v.Limit, base) {
				c.add(prefix+"limit", "differs from the rule's own in more than count, per and burst")
				continue
			}
		} else if !v.When.empty() {
			c.add("limit", "the base limit has a condition; make it an override")
		} else if v.Name != "" {
			c.add("limit", "the base limit has a name of its own; leave it out, the rule has one")
		}
		c.spec(prefix, v.Limit)
	}
}

// ofVariant is how the paths of a variant's own fields begin.
func ofVariant(i int) string {
	if i == 0 {
		return ""
	}
	return strict.Index("overrides", i-1) + "."
}

func sameButAmount(a, b limit.Spec) bool {
	a.Count, a.Period, a.Burst = b.Count, b.Period, b.Burst
	return a == b
}

// spec checks one limit and reports every field that limit.New refuses: it stops
// at the first, so that one is put right and it is asked again. What all limits of
// a rule share is reported for the base limit alone.
func (c *checker) spec(prefix string, s limit.Spec) {
	concurrency := s.Algorithm == limit.Concurrency
	switch {
	case s.Period == 0 && !concurrency:
		c.add(prefix+"limit.per", "is missing; write the time that the count is for, as in 5/1m or { count: 5, per: 1m }", "algorithm")
		s.Period = limit.Minute
	case s.Period != 0 && concurrency:
		c.add(prefix+"limit", "has a period; concurrency counts what runs at once, write only how many, such as limit: 20", "algorithm")
	case !concurrency && !c.period(prefix+"limit.per", s.Period, periodRange):
		s.Period = limit.Minute
	}
	if base := prefix == ""; base && s.MinInterval != 0 && !c.period("min_interval", s.MinInterval, span{int64(limit.Millisecond), int64(s.Period)}) {
		s.MinInterval = 0
	}
	s.LeaseTTL = 0 // has a narrower range of its own
	for {
		_, err := limit.New(s)
		var bad *limit.SpecError
		if !errors.As(err, &bad) {
			return
		}
		field, before := specFields[bad.Field], s
		if field.own || prefix == "" {
			c.add(prefix+field.path, bad.Reason, "algorithm")
		}
		if field.repair(&s); s == before {
			return
		}
	}
}
