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
	// rule is a shadow. What agrees in these shares its counters across versions
	// of the rules.
	id      uint64
	table   *table.Table
	denials *denials
	line    *line // nil for scope: pop
	counts  *RuleCounts
	period  lease.Millis // 0 for concurrency
	item    string       // of RateLimit-Policy
}

func (p *policy) shadow() bool      { return p.rule.Mode == rule.Shadow }
func (p *policy) concurrency() bool { return p.limit.Spec().Algorithm == limit.Concurrency }
func (p *policy) exact() bool       { return p.terms.Consistency == lease.Exact && !p.local() }
func (p *policy) local() bool       { return p.rule.Scope == rule.ScopePoP }

// key names a key's entry in the table.
func (p *policy) key(seed table.Seed, text []byte) table.Key {
	return table.Key{Hash: seed.Hash(p.id, text), Rule: uint32(p.id), Text: text}
}

// policies is a set of rules made ready for deciding.
type policies struct {
	set    *rule.Set
	byRule [][]policy // by rule and variant; empty for rules that are off
	byID   map[uint32]*policy
}

// compile makes rules ready. The order of lines and counters is kept in w.
func (w *Worker) compile(set *rule.Set) *policies {
	ps := &policies{set: set, byRule: make([][]policy, set.Len()), byID: map[uint32]*policy{}}
	for i := range ps.byRule {
		r := set.Rule(i)
		if r.Mode == rule.Off {
			continue
		}
		ps.byRule[i] = make([]policy, len(r.Limits))
		for v := range r.Limits {
			p := w.policy(set, i, v)
			ps.byRule[i][v] = p
			ps.byID[uint32(p.id)] = &ps.byRule[i][v]
		}
	}
	return ps
}

func (w *Worker) policy(set *rule.Set, i, variant int) policy {
	r, l := set.Rule(i), set.Limit(i, variant)
	p := policy{rule: r, variant: variant, limit: l, table: w.enforced, denials: w.denials, counts: w.countsOf(r.Name)}
	p.terms = lease.NewTerms(l, r.Consistency, millis(r.LeaseInterval), millis(r.Timeout), r.Overdraft)
	salt := l.Shape() << 24
	if p.shadow() {
		salt |= 1
		p.table, p.denials = w.shadow, w.shadowDenials
	}
	p.id = w.seed.Hash(salt, []byte(r.Name))
	if p.override = set.Override(i, variant); p.override != 0 {
		p.id = w.seed.Hash(p.id^p.override, []byte(r.Name))
	}
	if !p.local() {
		p.line = w.lineOf(p.terms.Timeout, p.shadow())
	}
	if !p.concurrency() {
		p.period = millis(l.Spec().Period)
	}
	p.item = policyItem(r.Name, l.Spec())
	return p
}

func millis(d limit.Micros) lease.Millis { return lease.Millis(d / limit.Millisecond) }

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
