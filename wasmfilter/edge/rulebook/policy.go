package rulebook

import (
	"cmp"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Policy is what it takes to decide by one limit of a rule.
type Policy struct {
	Rule  *rule.Rule
	Limit *limit.Limit
	Terms lease.Terms
	// ID is hashed with every key: rule, override, shape of limit, and whether the
	// rule is a shadow. Limits that agree in these share their counters across
	// versions of the rules.
	ID     uint64
	Counts *RuleCounts
	Period lease.Millis // 0 for concurrency
	TTL    lease.Millis // of a slot; 0 but for concurrency
	Item   string       // of RateLimit-Policy
	// Name is that of the rule, and with an override RULE/OVERRIDE: its name, or override-1 for
	// the first one.
	Name string

	Shadow      bool
	Concurrency bool // the algorithm
	Local       bool // scope: pop
	Exact       bool // by the region
	Settles     bool // the response decides whether a request counts, or what it costs, see rule.Rule.Settles

	// These are completed by who decides with the policy.
	Table   *table.Table
	Denials *table.Denials
	Lane    int // number of the lane on which the region is asked; -1 for scope: pop

	variant  int
	override uint64 // see rule.Set.Override
	pop      *pop.PoP
}

// Policies is a set of rules made ready for deciding.
type Policies struct {
	Set    *rule.Set
	ByRule [][]Policy // by rule and variant; empty for rules that are off or have no limit
	ByID   map[uint32]*Policy
	Hashes bool // a rule has hash: true
}

// compile makes rules ready. Lanes and counters of earlier rules are used again.
func (b *Rulebook) compile(set *rule.Set) *Policies {
	ps := &Policies{Set: set, ByRule: make([][]Policy, set.Len()), ByID: map[uint32]*Policy{}}
	for i := range ps.ByRule {
		r := set.Rule(i)
		if r.Mode == rule.Off || !r.Limited() {
			continue
		}
		ps.ByRule[i], ps.Hashes = make([]Policy, len(r.Limits)), ps.Hashes || r.Hash
		for v := range r.Limits {
			p := &ps.ByRule[i][v]
			*p = b.policy(set, i, v)
			b.equip(p)
			ps.ByID[uint32(p.ID)] = p
		}
	}
	return ps
}

func (b *Rulebook) policy(set *rule.Set, i, variant int) Policy {
	r, l := set.Rule(i), set.Limit(i, variant)
	p := Policy{Rule: r, variant: variant, Limit: l, Counts: b.CountsOf(r.Name), Name: Name(r, variant), Lane: -1, pop: b.pop}
	if own := r.Limits[variant].Name; variant > 0 && own != "" { // at most rule.MaxOverrides of a rule
		p.Counts = b.CountsOf(r.Name + ".override." + own)
	}
	p.Terms = lease.NewTerms(l, r.ConsistencyOf(l.Spec()), millis(r.LeaseInterval), millis(r.Timeout), r.Overdraft)
	p.Shadow, p.Local = r.Mode == rule.Shadow, r.Scope == rule.ScopePoP
	p.Concurrency = l.Concurrent()
	p.Exact = p.Terms.Consistency == lease.Exact && !p.Local
	p.Settles = r.Settles()
	salt := l.Shape() << 24
	if p.Shadow {
		salt |= 1
	}
	p.ID = b.pop.Seed.Hash(salt, []byte(r.Name))
	if p.override = set.Override(i, variant); p.override != 0 {
		p.ID = b.pop.Seed.Hash(p.ID^p.override, []byte(r.Name))
	}
	if p.Concurrency {
		p.TTL = millis(l.Spec().LeaseTTL)
	} else {
		p.Period = millis(l.Spec().Period)
	}
	p.Item = Item(r, l.Spec())
	return p
}

// Name is that of a rule and its override, see [Policy.Name].
func Name(r *rule.Rule, variant int) string {
	if variant == 0 {
		return r.Name
	}
	return r.Name + "/" + cmp.Or(r.Limits[variant].Name, "override-"+strconv.Itoa(variant))
}

// Own is the limit of a key that has one of its own, see [holder.State.OwnLimit], and Name with the name of its override.
func (p *Policy) Own(own int64) (units int64, name string) {
	if number := lease.Override(own); number > 0 {
		units, name = p.pop.Override(number)
		return units, p.Name + "/" + name
	}
	return own - 1, p.Name
}

// Granted is a grant of the region as the worker takes it.
func (p *Policy) Granted(g *wire.Grant) lease.Grant {
	b := g.Bounded(p.Period)
	if len(g.Name) > 0 && rule.IsRegion(string(g.Name)) && b.Limit < lease.Unlimited { // fit for a header
		b.Override = p.pop.NumberOf(g.Name, b.Limit)
	}
	return b
}

func millis(d limit.Micros) lease.Millis { return lease.Millis(d / limit.Millisecond) }

// Key names a key's entry in the table.
func (p *Policy) Key(seed table.Seed, text []byte) table.Key {
	return table.Key{Hash: seed.Hash(p.ID, text), Rule: uint32(p.ID), Text: text}
}

// SharedKey is the key that keys of the rule share which find no place.
func (p *Policy) SharedKey() table.Key { return table.Key{Hash: p.ID, Rule: uint32(p.ID)} }

// Named is a want as it travels, with the name of the counter that it is for.
func (p *Policy) Named(key table.Key, w *lease.Want) wire.Want {
	m := wire.Want{Rule: p.Rule.Name, Variant: uint32(p.variant), Override: p.override, Key: key.Text, Shape: p.Limit.Fingerprint(), Want: *w}
	m.Bound()
	return m
}

// Item is the rule's item of RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11),
// where its limit is s: the quota, and the window in whole seconds, at least 1.
func Item(r *rule.Rule, s limit.Spec) string {
	item := `"` + r.Name + `";q=` + strconv.FormatInt(s.Count, 10)
	if s.Algorithm == limit.Concurrency {
		return item + `;qu="concurrent-requests"`
	}
	return item + ";w=" + strconv.FormatInt(max(1, int64(s.Period/limit.Second)), 10)
}
