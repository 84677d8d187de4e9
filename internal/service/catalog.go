package service

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// catalog is a set of rules as the service uses it: immutable, replaced as a whole.
type catalog struct {
	version  string
	revision uint64 // see rule.Set
	encoded  []byte // the compiled form, as it travels
	rules    map[string]*entry
}

// entry is one rule.
type entry struct {
	policies []*engine.Policy // by variant
	keys     keyLimits        // of the rule's own limit
	counts   *ruleCounts
}

var noRules = &catalog{}

// newCatalog prepares a set of rules. With divides the catalog has the rules with scope:
// global alone: regions count the others.
func newCatalog(set *rule.Set, divides bool, before *catalog, now limit.Micros, m *metrics) *catalog {
	c := &catalog{version: set.Version, revision: set.Revision, encoded: set.Encode(), rules: make(map[string]*entry, set.Len())}
	for i := range set.Len() {
		r := set.Rule(i)
		if divides && r.Scope != rule.ScopeGlobal {
			continue
		}
		e := &entry{counts: m.rule(r.Name)}
		for v := range r.Limits {
			p := engine.NewPolicy(r.Name, set.Override(i, v), set.Limit(i, v), termsOf(r, set.Limit(i, v)))
			p.OnFailure, p.ExpectedHolders, p.Mode, p.Key = r.OnFailure, r.ExpectedHolders, r.Mode, r.Key
			p.Scope, p.Fair, p.Regions = r.Scope, r.Fair, set.Regions()
			e.policies = append(e.policies, p)
		}
		e.keys = newKeyLimits(r, e.policies[0])
		c.rules[r.Name] = e
	}
	return c
}

// policy is nil if there is no such rule, or no such limit of it. An override is found
// wherever it stands, by its name; variant, its place at the holder, is where to look first. A key
// that has a limit of its own has that in the place of the rule's.
func (c *catalog) policy(rule string, variant uint32, override uint64, key []byte) *engine.Policy {
	e := c.rules[rule]
	if e == nil {
		return nil
	}
	p := e.policy(variant, override)
	if p != nil && p.Override == 0 {
		if own := e.keys.find(key); own != nil {
			return own
		}
	}
	return p
}

// policy is that of a variant.
func (e *entry) policy(variant uint32, override uint64) *engine.Policy {
	if uint64(variant) < uint64(len(e.policies)) && e.policies[variant].Override == override {
		return e.policies[variant]
	}
	for _, p := range e.policies {
		if override != 0 && p.Override == override {
			return p
		}
	}
	return nil
}

func termsOf(r *rule.Rule, l *limit.Limit) lease.Terms {
	interval := lease.Millis(r.LeaseInterval / limit.Millisecond)
	timeout := lease.Millis(r.Timeout / limit.Millisecond)
	t := lease.NewTerms(l, r.Consistency, interval, timeout, r.Overdraft)
	if r.Scope == rule.ScopeGlobal {
		return t.Afar()
	}
	return t
}
