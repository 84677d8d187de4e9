package limiter

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
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
	// Since is when counters of this policy may first have counted, on the store's
	// clock; 0: for longer than this process knows. A store that lost its history
	// takes for spent only what may have been spent before it started.
	Since limit.Micros
	// OnFailure is what becomes of a request that is decided here, not at an edge,
	// while the store does not answer; for lease.FailureLocal ExpectedHolders is
	// among how many replicas the limit is shared while nobody knows better, 0
	// counts as 1. Nothing of this names the counter.
	OnFailure       lease.OnFailure
	ExpectedHolders int64
	// Mode says whether such a decision is enforced.
	Mode rule.Mode
	// Key is what keys are made of; nil where they are not those of a rules file.
	Key []rule.Part
	// Beside is set where the count came with a request: others judge the same counters by
	// another one, and the rule's own goes before it. It is this policy with exact terms,
	// for whoever keeps leases of such a counter by another count. See [Policy.Exactly].
	Beside *Policy

	salt uint64 // hash of what names the counters, without the key
}

// NewPolicy makes the policy of a rule's own limit, or of one of its overrides.
func NewPolicy(rule string, override uint64, l *limit.Limit, t lease.Terms, since limit.Micros) *Policy {
	p := &Policy{Rule: rule, Override: override, Limit: l, Terms: t, Since: since}
	h := newFNV()
	h.text(rule)
	h.number(override)
	h.number(l.Shape())
	p.salt = uint64(h)
	return p
}

// Exactly is the policy with exact terms: nothing is on lease for it.
func (p *Policy) Exactly() *Policy {
	t := &p.Terms
	exact := *p
	exact.Beside = nil
	exact.Terms = lease.NewTerms(p.Limit, lease.Exact, t.Interval, t.Timeout, 0)
	return &exact
}

// Salt tells policies apart in a hash of a counter's name: policies that share
// their counters have the same. It is not secret; mix it with a seeded hash.
func (p *Policy) Salt() uint64 { return p.salt }

// Same reports whether p and q count on the same counters: rule, override and the
// limit's shape agree, so that a new version of the rules goes on where the old
// one stopped. A limit of another shape is another counter.
func (p *Policy) Same(q *Policy) bool {
	return p == q ||
		p.salt == q.salt && p.Override == q.Override && p.Rule == q.Rule && p.Limit.Shape() == q.Limit.Shape()
}

// fnv is FNV-1a of 64 bits.
type fnv uint64

func newFNV() fnv { return 14695981039346656037 }

func (h *fnv) octet(b byte) { *h = (*h ^ fnv(b)) * 1099511628211 }

func (h *fnv) text(s string) {
	h.number(uint64(len(s)))
	for i := range len(s) {
		h.octet(s[i])
	}
}

func (h *fnv) number(n uint64) {
	for range 8 {
		h.octet(byte(n))
		n >>= 8
	}
}
