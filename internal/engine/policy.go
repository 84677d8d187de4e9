package engine

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/rejection"
)

// Policy is one limit of one rule: what all counters of it share. Together with
// a key it names a counter. It is immutable and safe for concurrent use.
type Policy struct {
	Rule string // name of the rule
	// Override names an override of the rule, as [rule.Set.Override] does; 0 is the
	// rule's own limit.
	Override uint64
	Limit    *limit.Limit
	Terms    lease.Terms
	// OnFailure decides on requests of a [Judge] while the store does not answer. With
	// lease.FailureLocal the limit is shared among ExpectedPoPs replicas while no live
	// holder is known; 0 counts as 1. Neither names the counter.
	OnFailure    lease.OnFailure
	ExpectedPoPs int64
	// Mode is whether such a decision is enforced.
	Mode rule.Mode
	// Scope is who shares the counters; it chooses the store, see [ByScope].
	Scope rule.Scope
	// Sharing is how regions share a limit of scope global that is too small for all of them.
	Sharing rule.Sharing
	// Regions have the reserves of a limit of scope global.
	Regions rule.Regions
	// Headers and Rejection are what a client sees that is decided here; zero where no rules file states them.
	Headers   rule.Headers
	Rejection rejection.Form
	// Key is what keys are made of; nil where they are not those of a rules file.
	Key []rule.Part
	// Brought is set if the count came with a request: others judge the same counter by other
	// counts. The key is exact for the next minute: a cache has no leases of it.
	Brought bool
	// Hash is set if holders hash the keys under a secret.
	Hash bool
	// ByResponse is set if the response decides whether a request counts, or what it costs. Holders settle that. With
	// ActualCost a response may cost more than its request took: holders may owe one limit.
	ByResponse, ActualCost bool
	// Unlimited is set for a key that is not counted: no [Store] is asked for it.
	Unlimited bool
	// Whole is set while shares of the limit are withheld: the policy of all of it. See
	// [Policy.Without].
	Whole *Policy

	salt uint64 // hash of what names the counters, without the key
}

// NewPolicy makes the policy of a rule's own limit, or of one of its overrides.
func NewPolicy(rule string, override uint64, l *limit.Limit, t lease.Terms) *Policy {
	return &Policy{Rule: rule, Override: override, Limit: l, Terms: t, salt: Hash([]byte(rule), override, l.Shape())}
}

// Salt distinguishes policies in a hash of a counter's name: policies that share
// their counters have the same. It is not secret; mix it with a seeded hash.
func (p *Policy) Salt() uint64 { return p.salt }

// Same reports whether p and q count on the same counters: rule, override and the
// limit's shape agree, so that a new version of the rules continues where the old
// one stopped. A limit of another shape is another counter.
func (p *Policy) Same(q *Policy) bool {
	return p == q ||
		p.salt == q.salt && p.Override == q.Override && p.Rule == q.Rule && p.Limit.Shape() == q.Limit.Shape()
}

// DebtID names a debt among those of all holders, or regions, so that the replicas of a
// store and the store itself recognise it; 0 has no name.
func DebtID(holder []byte, debt uint64) uint64 {
	if debt == 0 {
		return 0
	}
	return max(Hash(holder, debt), 1)
}

// Hash is FNV-1a of 64 bits of a name and numbers: the same at every replica. It is not secret.
func Hash(name []byte, numbers ...uint64) uint64 {
	h := rule.HashText(name)
	for _, n := range numbers {
		h = rule.HashNumber(h, n)
	}
	return h
}
