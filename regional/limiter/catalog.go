package limiter

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// catalog is a set of rules as the service uses it: immutable, replaced as a whole.
type catalog struct {
	version string
	encoded []byte // the compiled form, as it travels
	rules   map[string]*entry
}

// entry is one rule.
type entry struct {
	policies []*Policy // by variant
	counts   *ruleCounts
}

var noRules = &catalog{}

// newCatalog prepares a set of rules. A policy that was in the catalog before it
// counts for as long as it did there, the others from now on; of the first
// catalog of a process nobody knows.
func newCatalog(set *rule.Set, before *catalog, now limit.Micros, m *metrics) *catalog {
	c := &catalog{version: set.Version, encoded: set.Encode(), rules: make(map[string]*entry, set.Len())}
	if before == noRules {
		now = 0
	}
	for i := range set.Len() {
		r := set.Rule(i)
		e := &entry{counts: m.rule(r.Name)}
		for v := range r.Limits {
			p := NewPolicy(r.Name, uint32(v), set.Limit(i, v), termsOf(r, set.Limit(i, v)), now)
			p.OnFailure, p.ExpectedHolders, p.Mode, p.Key = r.OnFailure, r.ExpectedHolders, r.Mode, r.Key
			if old := before.policy(p.Rule, p.Variant); old != nil && old.Same(p) {
				p.Since = old.Since
			}
			e.policies = append(e.policies, p)
		}
		c.rules[r.Name] = e
	}
	return c
}

// policy is nil if there is no such rule or variant.
func (c *catalog) policy(rule string, variant uint32) *Policy {
	if e := c.rules[rule]; e != nil {
		return e.policy(variant)
	}
	return nil
}

func (e *entry) policy(variant uint32) *Policy {
	if uint64(variant) < uint64(len(e.policies)) {
		return e.policies[variant]
	}
	return nil
}

func termsOf(r *rule.Rule, l *limit.Limit) lease.Terms {
	consistency := lease.Leased
	switch r.Consistency {
	case rule.Exact:
		consistency = lease.Exact
	case rule.Optimistic:
		consistency = lease.Optimistic
	}
	interval := lease.Millis(r.LeaseInterval / limit.Millisecond)
	timeout := lease.Millis(r.Timeout / limit.Millisecond)
	return lease.NewTerms(l, consistency, interval, timeout, r.Overdraft)
}
