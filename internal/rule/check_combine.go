package rule

import (
	"math/bits"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// combinations checks that the settings of a rule fit together.
func (c *checker) combinations(r *Rule) {
	base := r.Limits[0].Limit
	c.refuse(r.Overdraft != 0 && r.Consistency != lease.Optimistic, "overdraft",
		"is only for consistency: optimistic; leave it out, or write consistency: optimistic", "consistency")
	c.refuse(base.MinInterval > 0 && base.Algorithm == limit.SlidingLog && r.Consistency != lease.Exact, "min_interval",
		"needs every request to be asked for; write consistency: exact, or leave min_interval out", "consistency", "algorithm")
	switch {
	case r.Scope == ScopePoP:
		c.local(r)
	case r.Scope == ScopeGlobal && base.Algorithm == limit.Concurrency:
		c.add("scope", "global counts units, not slots; write scope: region, or another algorithm", "algorithm")
	}
	c.fair(r)
	c.localNeedsShare(r)
	c.lease(r)
	for i, v := range r.Limits {
		prefix := ofVariant(i)
		c.capacity(prefix, r.Cost, v.Limit)
		if r.Scope != ScopePoP && r.Consistency != lease.Exact {
			c.leased(prefix, r, v.Limit)
		}
	}
}

// local checks a rule that is counted at the PoP and asks nobody.
func (c *checker) local(r *Rule) {
	c.refuse(r.Limits[0].Limit.Algorithm == limit.SlidingLog, "scope",
		"sliding_log is not counted at the PoP in this version; write scope: region, or algorithm: sliding_window", "algorithm")
	c.refuse(r.Consistency == lease.Optimistic, "consistency",
		"optimistic is about asking the region, and scope: pop never asks; leave consistency out, or write scope: region", "scope")
	c.refuse(r.LeaseInterval != 0, "lease.interval",
		"is about asking the region, and scope: pop never asks; leave it out, or write scope: region", "scope")
	c.refuse(r.Timeout != 0, "timeout", "is about asking the region, and scope: pop never asks; leave it out, or write scope: region", "scope")
}

// fair checks how regions share a limit.
func (c *checker) fair(r *Rule) {
	switch algorithm := r.Limits[0].Limit.Algorithm; {
	case r.Fair == FairDemand:
	case r.Scope != ScopeGlobal:
		c.add("fair", "is about regions that share a limit; leave it out, or write scope: global", "scope")
	case algorithm != limit.TokenBucket && algorithm != limit.FixedWindow:
		c.add("fair", "equal parts are only for token_bucket and fixed_window; leave it out, or write one of these", "algorithm")
	}
}

// localNeedsShare checks that a region that is cut off has a share to go on by.
func (c *checker) localNeedsShare(r *Rule) {
	if r.OnFailure == lease.FailureLocal && r.Scope == ScopeGlobal && !c.shares {
		c.add("on_failure", "local needs the regions' shares of a limit with scope: global; write regions: { eu: 3, us: 1 } at the top of the document, or on_failure: allow or deny", "scope")
		p := &c.found[len(c.found)-1]
		p.uses = append(p.uses, "regions")
	}
}

// lease checks the settings of leases against the algorithm.
func (c *checker) lease(r *Rule) {
	base := r.Limits[0].Limit
	ttl := base.LeaseTTL
	if ttl == 0 || base.Algorithm == limit.Concurrency {
		return
	}
	switch {
	case r.Consistency == lease.Exact:
		c.add("lease.ttl", "has no effect with consistency: exact, which leases nothing; leave it out, or write consistency: leased", "consistency")
	case r.Scope == ScopePoP:
		c.add("lease.ttl", "has no effect with scope: pop, where nothing is leased; leave it out, or write scope: region", "scope")
	case ttl < or(r.LeaseInterval, DefaultLeaseInterval):
		c.add("lease.ttl", formatPeriod(ttl)+" is less than the lease interval; write at least "+formatPeriod(or(r.LeaseInterval, DefaultLeaseInterval)), "lease.interval")
	case base.Algorithm == limit.SlidingLog && base.Period > 0 && ttl > base.Period/50:
		c.add("lease.ttl", formatPeriod(ttl)+" is more than a fiftieth of the window, the most that sliding_log allows; write "+
			formatPeriod(base.Period/50/limit.Millisecond*limit.Millisecond)+" or less, or leave it out", "limit", "algorithm")
	}
}

// capacity checks that a request of the highest cost can ever pass.
func (c *checker) capacity(prefix string, cost Cost, s limit.Spec) {
	most, capacity := cost.Most(), s.Count
	if s.Burst != 0 && s.Algorithm == limit.TokenBucket {
		capacity = s.Burst
	}
	if s.Count == 0 || most <= capacity {
		return // nothing passes, which is what 0 is for, or everything may
	}
	field := "cost"
	if cost.Header != "" {
		field = "cost.max"
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
func (c *checker) leased(prefix string, r *Rule, s limit.Spec) {
	uses := []string{prefix + "limit", "algorithm", "consistency", "lease.interval", "scope"}
	switch s.Algorithm {
	case limit.Concurrency:
	case limit.TokenBucket:
		if why := lacksBurst(s, or(r.LeaseInterval, DefaultLeaseInterval)); why != "" {
			c.add(prefix+"limit", why, uses...)
		}
	default:
		switch {
		case s.Period <= 0:
		case s.Period < minLeased:
			c.add(prefix+"limit", "a window of "+formatPeriod(s.Period)+" is too short to be leased; write a period of 1s or more, or consistency: exact", uses...)
		case r.Scope == ScopeGlobal && s.Period < minLeasedGlobal:
			c.add(prefix+"limit", "a window of "+formatPeriod(s.Period)+" is too short to be leased to other regions; write a period of 10s or more, algorithm: token_bucket, or consistency: exact", uses...)
		}
	}
}

// lacksBurst returns the mistake of a bucket that overflows between two asks; empty if it
// does not.
func lacksBurst(s limit.Spec, interval limit.Micros) string {
	burst, need := or(s.Burst, s.Count), neededBurst(s, interval)
	if burst >= need {
		return ""
	}
	why := "burst " + strconv.FormatInt(burst, 10) + " is less than 1.5 times what refills in a lease interval of " +
		formatPeriod(interval) + ", so part of the rate would be lost; write "
	if need > limit.MaxCount {
		return why + "a lower count, or consistency: exact"
	}
	return why + "{ count: " + strconv.FormatInt(s.Count, 10) + ", per: " + formatPeriod(s.Period) + ", burst: " +
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
