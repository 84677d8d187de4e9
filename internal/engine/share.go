package engine

import (
	"sync"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// HasShares reports whether regions have reserves of the limit.
func (p *Policy) HasShares() bool { return p.Regions.Divide(p.Scope, p.OnFailure) }

// maxParts bounds the policies that [Parts] keeps.
const maxParts = 4096

// Parts keeps policies that are made of a part of a limit. The zero value has none. It is safe for concurrent use.
type Parts struct {
	mu   sync.Mutex
	made map[part]*Policy
}

// part names a part of the limit of a policy.
type part struct {
	policy *Policy
	part   reserve.PerMille
}

// Of is the policy that was made of a part of p's limit, or makes it.
func (c *Parts) Of(p *Policy, of reserve.PerMille, create func(*Policy, reserve.PerMille) *Policy) *Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.made[part{p, of}]
	if q == nil {
		if c.made == nil || len(c.made) >= maxParts {
			c.made = map[part]*Policy{}
		}
		q = create(p, of)
		c.made[part{p, of}] = q
	}
	return q
}

// Without is the policy for the same counters without a part of the limit, which is withheld for regions. They use their
// parts rounded down, so no more is taken from a count or a burst; of the rate of a bucket they use exactly their parts.
func (p *Policy) Without(part reserve.PerMille) *Policy {
	s := p.Limit.Spec()
	count := s.Count - part.Of(s.Count)
	if s.Algorithm == limit.TokenBucket {
		count = part.Without(s.Count)
	}
	q := p.Resized(count, s.Burst-part.Of(s.Burst))
	q.Whole = p
	if s := q.Limit.Spec(); s.Block > 0 {
		s.Kept = p.Terms.Capacity - q.Terms.Capacity
		q.Limit, _ = limit.New(s) // it is as large as it was
	}
	return q
}

// Resized is the policy with a smaller count and burst.
func (p *Policy) Resized(count, burst int64) *Policy {
	s := p.Limit.Spec()
	if s.Count, s.Burst = count, burst; s.Algorithm == limit.TokenBucket && burst == 0 {
		s.Count = 0
	}
	if s.Count == 0 {
		s.Burst = 0
	}
	l, err := limit.New(s)
	if err != nil { // the arithmetic needs a large common divisor of count and period
		l = roundedDown(s, p.Limit.Spec().Count)
	}
	q, t := *p, &p.Terms
	q.Limit = l
	q.Terms = lease.NewTerms(l, t.Consistency, t.Interval, t.Timeout, t.Overdraft)
	if t.Aggregator {
		q.Terms = q.Terms.ForAggregator()
	}
	return &q
}

// roundedDown is the limit of a spec with its count rounded down, such that the arithmetic
// holds: it holds with the count whole, so with a common divisor of both it does, too.
func roundedDown(s limit.Spec, whole int64) *limit.Limit {
	count := s.Count
	for _, unit := range []limit.Micros{1, limit.Millisecond, limit.Second} {
		if s.Period%unit != 0 {
			continue
		}
		divisor := limit.GCD(whole, int64(s.Period/unit))
		if s.Count = count - count%divisor; s.Count == 0 {
			continue
		}
		if l, err := limit.New(s); err == nil {
			return l
		}
	}
	s.Count, s.Burst = 0, 0
	l, _ := limit.New(s) // nothing can be wrong with nothing
	return l
}

// WithoutPenalty is the policy for the same counters where denials are not charged.
func (p *Policy) WithoutPenalty() *Policy {
	s := p.Limit.Spec()
	s.ChargeRejected = false
	l, err := limit.New(s)
	if err != nil {
		return p // it is as large as it was
	}
	q := *p
	q.Limit = l
	return &q
}
