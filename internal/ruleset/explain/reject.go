package explain

import (
	"bytes"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// own is the override of a key that has a limit of its own at the time of a request; nil: it has none.
func own(r *rule.Rule, q *rule.Request, key []byte) (found *rule.KeyLimit) {
	var secrets []rule.Secret
	if q.Secret != nil {
		secrets = append(secrets, *q.Secret)
	}
	r.EachKey(secrets, func(of []byte, own *rule.KeyLimit) {
		if found == nil && bytes.Equal(of, key) && (own.Until == 0 || q.Now < own.Until) {
			found = own
		}
	})
	return found
}

// Capacity is the most that the limit of a rule that applies can hold, in units: that of the override, or of the key; -1:
// there is none, or it is not known.
func (v *Verdict) Capacity() int64 {
	var s limit.Spec
	switch {
	case v.Hit == nil || v.Own != nil && v.Own.Unlimited:
		return -1
	case v.Own != nil:
		s = v.Own.Limit
	default:
		s = v.Rule.Limits[v.Hit.Variant].Limit
	}
	if s.Algorithm == limit.TokenBucket {
		return s.Burst
	}
	return s.Count
}

// Consistency is the word for that of the limit of a rule that applies; empty with scope: pop, which leases nothing.
func (v *Verdict) Consistency() string {
	if v.Rule.Scope == rule.ScopePoP {
		return ""
	}
	return v.Rule.ConsistencyOf(v.Rule.Limits[v.Hit.Variant].Limit).String()
}

// Rejecter is the index of the rule that rejects the request, of those that are known to apply: the first one, in the order
// in which a PoP asks, of which less is left than the request costs. left is what is left of the rule i; -1: that is not
// known, and it may be as much as its limit can hold. The index is -1 if no rule is known to reject the request.
func Rejecter(all []Verdict, left func(i int) int64) int {
	for _, exact := range []bool{true, false} {
		for i := range all {
			v := &all[i]
			if v.Hit == nil || v.Rule.Mode == rule.Shadow || exact != (v.Consistency() == lease.Exact.String()) {
				continue
			}
			is := left(i)
			if is < 0 {
				is = v.Capacity()
			}
			if 0 <= is && is < v.Hit.Cost {
				return i
			}
		}
	}
	return -1
}
