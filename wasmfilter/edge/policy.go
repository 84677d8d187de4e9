package edge

import (
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// policy is what it takes to decide by one limit of a rule.
type policy struct {
	rule     *rule.Rule
	variant  int
	limit    *limit.Limit
	terms    lease.Terms
	override uint64 // see rule.Set.Override
	// id is hashed with every key: rule, override, shape of limit, and whether the
	// rule is a shadow. Limits that agree in these share their counters across
	// versions of the rules.
	id      uint64
	table   *table.Table
	denials *denials
	lane    *lane // nil for scope: pop
	counts  *RuleCounts
	period  lease.Millis // 0 for concurrency
	item    string       // of RateLimit-Policy

	shadow      bool
	concurrency bool // the algorithm
	local       bool // scope: pop
	exact       bool // by the region
}

// policies is a set of rules made ready for deciding.
type policies struct {
	set    *rule.Set
	byRule [][]policy // by rule and variant; empty for rules that are off
	byID   map[uint32]*policy
}

// compile makes rules ready. Lanes and counters of earlier rules are used again.
func (b *rulebook) compile(set *rule.Set) *policies {
	ps := &policies{set: set, byRule: make([][]policy, set.Len()), byID: map[uint32]*policy{}}
	for i := range ps.byRule {
		r := set.Rule(i)
		if r.Mode == rule.Off {
			continue
		}
		ps.byRule[i] = make([]policy, len(r.Limits))
		for v := range r.Limits {
			p := &ps.byRule[i][v]
			*p = b.policy(set, i, v)
			b.equip(p)
			ps.byID[uint32(p.id)] = p
		}
	}
	return ps
}

func (b *rulebook) policy(set *rule.Set, i, variant int) policy {
	r, l := set.Rule(i), set.Limit(i, variant)
	p := policy{rule: r, variant: variant, limit: l, counts: b.countsOf(r.Name)}
	p.terms = lease.NewTerms(l, r.Consistency, millis(r.LeaseInterval), millis(r.Timeout), r.Overdraft)
	p.shadow, p.local = r.Mode == rule.Shadow, r.Scope == rule.ScopePoP
	p.concurrency = l.Spec().Algorithm == limit.Concurrency
	p.exact = p.terms.Consistency == lease.Exact && !p.local
	salt := l.Shape() << 24
	if p.shadow {
		salt |= 1
	}
	p.id = b.pop.seed.Hash(salt, []byte(r.Name))
	if p.override = set.Override(i, variant); p.override != 0 {
		p.id = b.pop.seed.Hash(p.id^p.override, []byte(r.Name))
	}
	if !p.concurrency {
		p.period = millis(l.Spec().Period)
	}
	p.item = policyItem(r.Name, l.Spec())
	return p
}

func millis(d limit.Micros) lease.Millis { return lease.Millis(d / limit.Millisecond) }

// ownLimit states the limit of a key that has one of its own, see [lease.Account.OwnLimit].
// Of a token bucket it is the burst.
func (h *hit) ownLimit(own int64) {
	if h.own == own {
		return
	}
	h.own, h.quota.Limit, h.quota.Policy = own, h.policy.terms.Capacity, h.policy.item
	if own > 0 {
		s := h.policy.limit.Spec()
		s.Count = own - 1
		h.quota.Limit, h.quota.Policy = s.Count, policyItem(h.policy.rule.Name, s)
	}
}

// policyItem is the rule's item of RateLimit-Policy
// (draft-ietf-httpapi-ratelimit-headers-10): the quota, and the window in whole
// seconds, at least 1.
func policyItem(name string, s limit.Spec) string {
	item := `"` + name + `";q=` + strconv.FormatInt(s.Count, 10)
	if s.Algorithm == limit.Concurrency {
		return item + `;qu="concurrent-requests"`
	}
	return item + ";w=" + strconv.FormatInt(max(1, int64(s.Period/limit.Second)), 10)
}
