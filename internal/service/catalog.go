package service

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service/keylimits"
)

// catalog is a set of rules as the service uses it: immutable, replaced as a whole.
type catalog struct {
	version  string
	revision uint64    // see rule.Set
	encoded  []byte    // the compiled form, as it travels
	set      *rule.Set // without limits of single keys
	rules    map[string]*entry
	expanded map[string][]*rule.Rule // see Service.Expanded
	names    map[string]bool         // of all rules, those that are not counted here too

	secret      *rule.Secret // that PoPs hash keys under; nil: no rule has hash: true
	fingerprint uint64       // of the secret
}

// entry is one rule.
type entry struct {
	set      *rule.Set        // without limits of single keys
	index    int              // in set
	policies []*engine.Policy // by variant
	keys     keylimits.Table  // of the rule's own limit
	counts   *ruleCounts
	// overrides are the counts of the overrides that have a name, by engine.Policy.Override; nil: none has.
	overrides map[uint64]*ruleCounts
}

var noRules = &catalog{}

// newCatalog prepares a set of rules. With divides the catalog has the rules with scope:
// global alone: regions count the others.
func newCatalog(set *rule.Set, secrets []rule.Secret, divides bool, m *metrics) *catalog {
	c := &catalog{version: set.Version, revision: set.Revision, encoded: set.Encode(), rules: make(map[string]*entry, set.Len()), expanded: map[string][]*rule.Rule{}, names: make(map[string]bool, set.Len())}
	lean := set.WithoutKeys()
	c.set = lean
	for i := range set.Len() {
		r := set.Rule(i)
		c.names[r.Name] = true
		if !r.Limited() || divides && r.Scope != rule.ScopeGlobal {
			continue
		}
		e := &entry{set: lean, index: i, counts: m.rule(r.Name)}
		for v := range r.Limits {
			p := engine.NewPolicy(r.Name, set.Override(i, v), set.Limit(i, v), termsOf(r, set.Limit(i, v)))
			p.OnFailure, p.ExpectedPoPs, p.Mode, p.Key = r.OnFailure, r.ExpectedPoPs, r.Mode, r.Key
			p.Scope, p.Sharing, p.Regions, p.Headers, p.Rejection, p.Hash, p.ByResponse, p.ActualCost = r.Scope, r.Sharing, set.Regions(), r.Headers, r.Rejection, r.Hash, r.Settles(), r.Cost.Actual.Stated()
			e.policies = append(e.policies, p)
			if name := r.Limits[v].Name; name != "" {
				if e.overrides == nil {
					e.overrides = map[uint64]*ruleCounts{}
				}
				e.overrides[p.Override] = m.override(e.counts, r.Name, name)
			}
		}
		e.keys = keylimits.New(r, secrets, e.policies[0])
		c.rules[r.Name] = e
		written := rule.Written(r.Name)
		if c.expanded[written] = append(c.expanded[written], lean.Rule(i)); written != r.Name {
			c.expanded[r.Name] = append(c.expanded[r.Name], lean.Rule(i))
		}
	}
	if hashes(set, divides) != "" {
		c.secret, c.fingerprint = &secrets[0], secrets[0].Fingerprint()
	}
	return c
}

// hashes is the name of a rule with hash: true; empty: there is none.
func hashes(set *rule.Set, divides bool) string {
	for i := range set.Len() {
		if r := set.Rule(i); r.Hash && r.Mode != rule.Off && (!divides || r.Scope == rule.ScopeGlobal) {
			return r.Name
		}
	}
	return ""
}

// policy is nil if there is no such rule, or no such limit of it. An override is found
// wherever it stands, by its name; variant, its place at the holder, is where to look first. A key
// that has a limit of its own now has that in the place of the rule's.
func (c *catalog) policy(rule string, variant uint32, override uint64, key []byte, now limit.Micros) (own keylimits.Own) {
	e := c.rules[rule]
	if e == nil {
		return own
	}
	p := e.policy(variant, override)
	if p != nil && p.Override == 0 {
		if own = e.keys.Find(key, now); own.Policy != nil {
			return own
		}
	}
	own.Policy = p
	return own
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

// counts are those of a policy of the catalog.
func (c *catalog) counts(p *engine.Policy) *ruleCounts {
	e := c.rules[p.Rule]
	if of := e.overrides[p.Override]; of != nil {
		return of
	}
	return e.counts
}

func termsOf(r *rule.Rule, l *limit.Limit) lease.Terms {
	interval := lease.Millis(r.LeaseInterval / limit.Millisecond)
	timeout := lease.Millis(r.Timeout / limit.Millisecond)
	t := lease.NewTerms(l, r.ConsistencyOf(l.Spec()), interval, timeout, r.Overdraft)
	if r.Scope == rule.ScopeGlobal {
		return t.ForAggregator()
	}
	return t
}
