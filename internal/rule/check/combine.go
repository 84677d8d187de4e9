package check

import (
	"cmp"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// combinations checks that the settings of a rule fit together.
func (c *checker) combinations(r *rule.Rule) {
	base := r.Limits[0].Limit
	c.reject(r.Overdraft != 0 && r.Consistency != lease.Optimistic, "overdraft",
		"is only for consistency: optimistic; leave it out, or write consistency: optimistic", "consistency")
	c.reject(base.MinInterval > 0 && base.Algorithm == limit.SlidingLog && r.Consistency != lease.Exact, "min_interval",
		"needs every request to be asked for; write consistency: exact, or leave min_interval out", "consistency", "algorithm")
	switch {
	case r.Scope == rule.ScopePoP:
		c.local(r)
	case r.Scope == rule.ScopeGlobal && base.Algorithm == limit.Concurrency:
		c.add("scope", "global counts units, not slots; write scope: region, or another algorithm", "algorithm")
	}
	if a := base.Algorithm; a == limit.SlidingLog || a == limit.Concurrency {
		reason := "does not go with " + a.String() + ", only with windows and buckets; write algorithm: sliding_window, or leave "
		c.reject(r.Count.ByResponse(), "count", reason+"count out", "algorithm")
		c.reject(r.Cost.Actual.Stated(), "cost.actual", reason+"actual out", "algorithm")
	}
	c.sharing(r)
	c.localNeedsShare(r)
	c.lease(r)
	for i, v := range r.Limits {
		prefix := ofVariant(i)
		if v.Unlimited {
			continue
		}
		c.capacity(prefix, r.Cost, v.Limit)
		c.calendar(prefix, r, v.Limit)
		c.reject(v.Limit.Block > 0 && r.Scope != rule.ScopePoP && r.ConsistencyOf(v.Limit) != lease.Exact, "on_limit.block",
			"is only for exact: a denial of a leased limit may mean that other PoPs have its units on lease, and clients that are not over it would be blocked; write consistency: exact, or leave on_limit out",
			prefix+"limit", "consistency")
		if r.Scope != rule.ScopePoP && r.Consistency != lease.Exact {
			c.leased(prefix, r, v.Limit)
		}
	}
}

// local checks a rule that is counted at the PoP and asks nobody.
func (c *checker) local(r *rule.Rule) {
	c.reject(r.Limits[0].Limit.Algorithm == limit.SlidingLog, "scope",
		"sliding_log is not counted at the PoP in this version; write scope: region, or algorithm: sliding_window", "algorithm")
	c.reject(r.Consistency == lease.Optimistic, "consistency",
		"optimistic has no effect with scope: pop, which never asks the region; leave consistency out, or write scope: region", "scope")
	c.reject(r.LeaseInterval != 0, "lease.interval",
		"has no effect with scope: pop, which never asks the region; leave it out, or write scope: region", "scope")
	c.reject(r.Timeout != 0, "timeout", "has no effect with scope: pop, which never asks the region; leave it out, or write scope: region", "scope")
}

// sharing checks how regions share a limit.
func (c *checker) sharing(r *rule.Rule) {
	switch algorithm := r.Limits[0].Limit.Algorithm; {
	case r.Sharing == rule.SharingProportional:
	case r.Scope != rule.ScopeGlobal:
		c.add("sharing", "is about regions that share a limit; leave it out, or write scope: global", "scope")
	case algorithm != limit.TokenBucket && algorithm != limit.FixedWindow:
		c.add("sharing", "equal parts are only for token_bucket and fixed_window; leave it out, or write one of these", "algorithm")
	}
}

// localNeedsShare checks that a region that is cut off has a share to go on by.
func (c *checker) localNeedsShare(r *rule.Rule) {
	if r.OnFailure == lease.FailureLocal && r.Scope == rule.ScopeGlobal && !c.shares {
		c.add("on_failure", "local needs the regions' shares of a limit with scope: global; write regions: { eu: 3, us: 1 } at the top of the document, or on_failure: allow or deny", "scope")
		p := &c.found[len(c.found)-1]
		p.Uses = append(p.Uses, "regions")
	}
}

// lease checks the settings of leases against the algorithm.
func (c *checker) lease(r *rule.Rule) {
	base := r.Limits[0].Limit
	ttl := base.LeaseTTL
	if ttl == 0 || base.Algorithm == limit.Concurrency {
		return
	}
	switch {
	case r.Consistency == lease.Exact:
		c.add("lease.ttl", "has no effect with consistency: exact, which leases nothing; leave it out, or write consistency: leased", "consistency")
	case r.Scope == rule.ScopePoP:
		c.add("lease.ttl", "has no effect with scope: pop, where nothing is leased; leave it out, or write scope: region", "scope")
	case ttl < cmp.Or(r.LeaseInterval, rule.DefaultLeaseInterval):
		c.add("lease.ttl", rule.FormatPeriod(ttl)+" is less than the lease interval; write at least "+rule.FormatPeriod(cmp.Or(r.LeaseInterval, rule.DefaultLeaseInterval)), "lease.interval")
	case base.Algorithm == limit.SlidingLog && base.Period > 0 && ttl > base.Period/50:
		c.add("lease.ttl", rule.FormatPeriod(ttl)+" is more than a fiftieth of the window, the most that sliding_log allows; write "+
			rule.FormatPeriod(base.Period/50/limit.Millisecond*limit.Millisecond)+" or less, or leave it out", "limit", "algorithm")
	}
}
