package check

import (
	"cmp"
	"errors"
	"math/bits"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// specFields are the fields of limit.Spec by its names for them: where the rule language
// has them, whether each limit of a rule has its own, and how to set one to a legal value.
var specFields = map[string]struct {
	path   string
	own    bool
	repair func(*limit.Spec)
}{
	"count":           {"limit.count", true, func(s *limit.Spec) { s.Count = 1 }},
	"period":          {"limit.per", true, func(s *limit.Spec) { s.Period = limit.Minute }},
	"burst":           {"limit.burst", true, func(s *limit.Spec) { s.Burst = 0 }},
	"calendar":        {"limit.per", true, func(s *limit.Spec) { s.Calendar = nil }},
	"anchor":          {"limit.anchor", true, func(s *limit.Spec) { s.Calendar = nil }},
	"zone":            {"limit.zone", true, func(s *limit.Spec) { s.Calendar = nil }},
	"algorithm":       {"algorithm", false, func(s *limit.Spec) { s.Algorithm = limit.TokenBucket }},
	"align":           {"align", false, func(s *limit.Spec) { s.Align = limit.AlignClock }},
	"min_interval":    {"min_interval", false, func(s *limit.Spec) { s.MinInterval = 0 }},
	"charge_rejected": {"charge_rejected", false, func(s *limit.Spec) { s.ChargeRejected = false }},
	"block":           {"on_limit.block", false, func(s *limit.Spec) { s.Block = 0 }},
	"lease_ttl":       {"lease.ttl", false, func(s *limit.Spec) { s.LeaseTTL = 0 }},
}

func (c *checker) limits(r *rule.Rule) {
	base := r.Limits[0].Limit
	c.period("lease.ttl", base.LeaseTTL, ttlRange)
	c.period("on_limit.block", base.Block, blockRange)
	c.atMost("overrides", len(r.Limits)-1, rule.MaxOverrides, "overrides")
	names, ids := map[string]int{}, map[uint64]int{}
	for i, v := range r.Limits {
		prefix := ofVariant(i)
		if i > 0 {
			c.overrideName(names, v.Name, i-1)
			if first, taken := ids[v.ID(i)]; taken && v.Name == "" {
				c.taken(prefix+"when", "is that of another override, so both would have the same counters; write a name here", c.at(ofVariant(first)+"when"))
			} else {
				ids[v.ID(i)] = i
			}
			c.match(prefix+"when", &v.When)
			c.reject(v.When.Empty(), prefix+"when", "is empty; write what the request must have, such as { header: { x-tier: gold } }")
		}
		if !v.Unlimited {
			c.spec(prefix, v.Limit, base)
		}
	}
}

// ofVariant is how the paths of a variant's own fields begin.
func ofVariant(i int) string {
	if i == 0 {
		return ""
	}
	return strict.Index("overrides", i-1) + "."
}

// spec checks one limit and reports every field that limit.New rejects: it stops
// at the first, so that one is put right and it is asked again. A mistake that a limit shares with the
// base limit is reported for that alone.
func (c *checker) spec(prefix string, s, base limit.Spec) {
	concurrency := s.Algorithm == limit.Concurrency
	switch {
	case s.Period == 0 && !concurrency:
		c.add(prefix+"limit.per", "is missing or 0; write the time that the count is for, as in 5/1m or { count: 5, per: 1m }", "algorithm")
		s.Period = limit.Minute
	case s.Period != 0 && concurrency:
		c.add(prefix+"limit", "has a period; concurrency counts what runs at once, write only how many, such as limit: 20", "algorithm")
		s.Calendar = nil
	case !concurrency && !c.period(prefix+"limit.per", s.Period, periodRange):
		s.Period = limit.Minute
	}
	if prefix == "" && s.MinInterval != 0 && !c.period("min_interval", s.MinInterval, Range{int64(limit.Millisecond), int64(s.Period)}) {
		s.MinInterval = 0
	}
	s.LeaseTTL, base.LeaseTTL = 0, 0 // have a narrower range of their own
	s.Block, base.Block = min(s.Block, limit.MaxBlock), min(base.Block, limit.MaxBlock)
	for bad := rejected(s); bad != nil; bad = rejected(s) {
		field, before := specFields[bad.Field], s
		switch {
		case field.own || prefix == "":
			c.add(prefix+field.path, bad.Reason, "algorithm")
		case rejected(base) == nil: // a shared field that only goes with the base limit
			c.add(prefix+"limit", "does not go with "+field.path+", which "+bad.Reason, "algorithm", field.path)
		}
		if field.repair(&s); s == before {
			return
		}
	}
}

// rejected is why limit.New rejects a spec; nil: it does not.
func rejected(s limit.Spec) *limit.SpecError {
	var bad *limit.SpecError
	_, err := limit.New(s)
	errors.As(err, &bad)
	return bad
}

// calendar checks that a limit by windows of the calendar is counted where these are known.
func (c *checker) calendar(prefix string, r *rule.Rule, s limit.Spec) {
	if s.Calendar == nil {
		return
	}
	c.reject(r.Scope == rule.ScopePoP, prefix+"limit.per",
		"is a window of the calendar, and the PoP, where scope: pop counts, knows no time zones; write scope: region, or a period such as 1d", "scope")
	c.reject(r.Consistency == lease.Optimistic, prefix+"limit.per",
		"is a window of the calendar, not for optimistic; write leased or exact, or a period such as 1d", "consistency")
}

// capacity checks that a request of the highest cost can ever pass.
func (c *checker) capacity(prefix string, cost rule.Cost, s limit.Spec) {
	most, capacity := cost.Most(), s.Count
	if s.Burst != 0 && s.Algorithm == limit.TokenBucket {
		capacity = s.Burst
	}
	if s.Count == 0 || most <= capacity {
		return // nothing passes, which is what 0 is for, or everything may
	}
	field := "cost"
	if cost.Actual.Stated() {
		field = "cost.estimate"
	}
	if cost.By.Name != "" {
		field += ".max"
	}
	what := "burst"
	if s.Algorithm != limit.TokenBucket {
		what = "count"
	}
	c.add(field, strconv.FormatInt(most, 10)+" is more than "+prefix+"limit ever admits at once; write at most "+
		strconv.FormatInt(capacity, 10)+", or raise its "+what, prefix+"limit", "algorithm")
}

// The shortest windows that are worth cutting leases from, for holders in the region and
// in other regions.
const (
	minLeased       = limit.Second
	minLeasedGlobal = 10 * limit.Second
)

// leased checks that a limit leaves room for leases.
func (c *checker) leased(prefix string, r *rule.Rule, s limit.Spec) {
	uses := []string{prefix + "limit", "algorithm", "consistency", "lease.interval", "scope"}
	switch s.Algorithm {
	case limit.Concurrency:
	case limit.TokenBucket:
		if why := lacksBurst(s, cmp.Or(r.LeaseInterval, rule.DefaultLeaseInterval)); why != "" {
			c.add(prefix+"limit", why, uses...)
		}
	default:
		switch {
		case s.Period <= 0:
		case s.Period < minLeased:
			c.add(prefix+"limit", "a window of "+rule.FormatPeriod(s.Period)+" is too short to be leased; write a period of 1s or more, or consistency: exact", uses...)
		case r.Scope == rule.ScopeGlobal && s.Period < minLeasedGlobal:
			c.add(prefix+"limit", "a window of "+rule.FormatPeriod(s.Period)+" is too short to be leased to other regions; write a period of 10s or more, algorithm: token_bucket, or consistency: exact", uses...)
		}
	}
}

// lacksBurst returns the mistake of a bucket that overflows between two asks; empty if it
// does not.
func lacksBurst(s limit.Spec, interval limit.Micros) string {
	burst, need := cmp.Or(s.Burst, s.Count), neededBurst(s, interval)
	if burst >= need {
		return ""
	}
	why := "burst " + strconv.FormatInt(burst, 10) + " is less than 1.5 times what refills in a lease interval of " +
		rule.FormatPeriod(interval) + ", so part of the rate would be lost; write "
	if need > limit.MaxCount {
		return why + "a lower count, or consistency: exact"
	}
	return why + "{ count: " + strconv.FormatInt(s.Count, 10) + ", per: " + rule.FormatPeriod(s.Period) + ", burst: " +
		strconv.FormatInt(need, 10) + " } or more, or consistency: exact"
}

// neededBurst is 1.5 * count * interval / period, rounded up: what a bucket must
// hold so that nothing overflows between two asks.
func neededBurst(s limit.Spec, interval limit.Micros) int64 {
	if s.Period <= 0 || s.Count <= 0 || s.Count > limit.MaxCount {
		return 0
	}
	high, low := bits.Mul64(uint64(s.Count)*3, uint64(interval))
	low, carry := bits.Add64(low, uint64(2*s.Period-1), 0)
	high += carry
	if high >= uint64(2*s.Period) {
		return limit.MaxCount + 1
	}
	need, _ := bits.Div64(high, low, uint64(2*s.Period))
	return int64(min(need, uint64(limit.MaxCount)+1))
}
