package rule

import (
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Set is a set of rules, checked and ready to be evaluated. It is immutable and
// safe for concurrent use.
type Set struct {
	// Version names the set: the hash of its canonical bytes. Two sets that mean
	// the same have the same version, whatever they were read from.
	Version string
	// Revision orders sets: of two, the one with the larger revision is newer. 0:
	// unknown. It is not part of the version or the compiled form: a set with the same
	// content as before is the same set. See [Set.Dated].
	Revision uint64
	// Content is the version and, where single keys have limits of their own, the hash of
	// these, which are not part of the version: edges do not have them.
	Content string

	rules     []Rule
	regions   Regions
	byName    map[string]int
	limits    [][]*limit.Limit // by rule and variant
	overrides [][]uint64       // likewise, see Override
	inputs    Inputs
	compiled  []compiled
	index     index
	canonical []byte
}

// New checks rules and compiles them; regions are those that have shares. The error is [strict.Errors], one for each
// mistake, with the path of the field as in a rules file. New keeps what the rules
// point to; do not change it afterwards.
func New(rules []Rule, regions ...Region) (*Set, error) {
	rules, sorted := normal(rules), Regions(regions).sorted()
	if problems := check(rules, sorted); len(problems) > 0 {
		return nil, problems.errors()
	}
	return compile(rules, sorted), nil
}

// stated is added to a revision that a document states: it is newer than all that only
// have the time of their file, however small the first stated number is.
const stated = 1 << 62

// Dated returns the set with a revision, below 2^62, unless its document stated one.
func (s *Set) Dated(revision uint64) *Set {
	if s.Stated() {
		return s
	}
	dated := *s
	dated.Revision = min(revision, stated-1)
	return &dated
}

// Numbered returns the set with the revision that a document states as this number, 1 to
// 2^53-1. It is for rules whose source numbers them.
func (s *Set) Numbered(number uint64) *Set {
	numbered := *s
	numbered.Revision = stated + number
	return &numbered
}

// Stated reports whether the revision is one that the document stated.
func (s *Set) Stated() bool { return s.Revision >= stated }

// Number returns the revision for people: the one in the document or, without that, the
// one that the set was dated with.
func (s *Set) Number() uint64 { return Number(s.Revision) }

// Number is [Set.Number] of a revision.
func Number(revision uint64) uint64 { return revision &^ stated }

// Len returns the number of rules, those that are off included.
func (s *Set) Len() int { return len(s.rules) }

// Rule returns the rule i with its defaults filled in, 0 <= i < Len. It must not
// be changed.
func (s *Set) Rule(i int) *Rule { return &s.rules[i] }

// Regions are those that have shares of the limits with ScopeGlobal. They must not be
// changed.
func (s *Set) Regions() Regions { return s.regions }

// Find returns the index of the rule of that name.
func (s *Set) Find(name string) (i int, ok bool) {
	i, ok = s.byName[name]
	return i, ok
}

// Limit returns a limit of the rule i: 0 for the base limit, j+1 for the override
// j. It is nil if there is no such variant: the caller may have other rules.
func (s *Set) Limit(i, variant int) *limit.Limit {
	if variant < 0 || variant >= len(s.limits[i]) {
		return nil
	}
	return s.limits[i][variant]
}

// Override identifies a variant of the rule i by its content and not by its place: 0 for
// the base limit, for an override a hash of its name or, without one, of its condition. It
// is the same in every set that has this override, whatever its limit and the other
// overrides are. The variant must be one of the rule's.
func (s *Set) Override(i, variant int) uint64 { return s.overrides[i][variant] }

// Inputs returns what the rules look at. It must not be changed.
func (s *Set) Inputs() *Inputs { return &s.inputs }

// Encode returns the compiled form of the set: its canonical bytes, see [Decode]. It has
// no limits of single keys: there may be many, and edges do not need them. The bytes must
// not be changed.
func (s *Set) Encode() []byte { return s.canonical }

// normal returns a copy of rules in which what has several spellings has one.
func normal(rules []Rule) []Rule {
	rules = append([]Rule(nil), rules...)
	for i := range rules {
		r := &rules[i]
		r.Match = r.Match.normal()
		r.Cost.Header = strings.ToLower(r.Cost.Header)
		r.Limits = append([]Variant(nil), r.Limits...)
		for j := range r.Limits {
			r.Limits[j].When = r.Limits[j].When.normal()
		}
		r.Key = append([]Part(nil), r.Key...)
		for j, p := range r.Key {
			r.Key[j] = p.normal()
		}
		r.Keys = append([]KeyLimit(nil), r.Keys...)
	}
	return rules
}

func (m Match) normal() Match {
	m.Hosts = append([]string(nil), m.Hosts...)
	for i, h := range m.Hosts {
		m.Hosts[i] = strings.TrimSuffix(strings.ToLower(h), ".")
	}
	m.Headers = append([]HeaderMatch(nil), m.Headers...)
	for i := range m.Headers {
		m.Headers[i].Name = strings.ToLower(m.Headers[i].Name)
	}
	for i := range m.Headers { // few, and slices.SortFunc costs 7 kB
		for j := i; j > 0 && m.Headers[j].Name < m.Headers[j-1].Name; j-- {
			m.Headers[j], m.Headers[j-1] = m.Headers[j-1], m.Headers[j]
		}
	}
	return m
}

func (p Part) normal() Part {
	p = append(Part(nil), p...)
	for i := range p {
		if p[i].From == FromHeader {
			p[i].Name = strings.ToLower(p[i].Name)
		}
	}
	return p
}

// fill fills in the defaults of a rule that has passed the checks.
func (r *Rule) fill() {
	r.Cost.Default = or(r.Cost.Default, 1)
	if r.Consistency == lease.Optimistic {
		r.Overdraft = or(r.Overdraft, DefaultOverdraft)
	}
	r.DenyStatus = or(r.DenyStatus, DefaultDenyStatus)
	r.ExpectedHolders = or(r.ExpectedHolders, DefaultExpectedHolders)
	r.Timeout = or(r.Timeout, r.Scope.defaultTimeout())
	r.LeaseInterval = or(r.LeaseInterval, DefaultLeaseInterval)
	for i := range r.Limits {
		fillSpec(&r.Limits[i].Limit)
	}
	for i := range r.Keys {
		fillSpec(&r.Keys[i].Limit)
	}
	for _, p := range r.Key {
		for i := range p {
			if p[i].From == FromClientIP {
				p[i].IPv6Prefix = or(p[i].IPv6Prefix, DefaultIPv6Prefix)
			}
		}
	}
}

func fillSpec(s *limit.Spec) {
	s.LeaseTTL = or(s.LeaseTTL, DefaultLeaseTTL)
	if s.Algorithm == limit.TokenBucket {
		s.Burst = or(s.Burst, s.Count)
	}
}

func or[T int | int64 | limit.Micros](value, other T) T {
	if value == 0 {
		return other
	}
	return value
}

// compile makes a set of rules that have passed the checks.
func compile(rules []Rule, regions Regions) *Set {
	s := &Set{
		rules:     rules,
		regions:   regions,
		byName:    make(map[string]int, len(rules)),
		limits:    make([][]*limit.Limit, len(rules)),
		overrides: make([][]uint64, len(rules)),
		compiled:  make([]compiled, len(rules)),
		index:     newIndex(rules),
	}
	for i := range rules {
		rules[i].fill()
		s.byName[rules[i].Name] = i
		for j := range rules[i].Limits {
			v := &rules[i].Limits[j]
			l, _ := limit.New(v.Limit) // checked
			s.limits[i] = append(s.limits[i], l)
			s.overrides[i] = append(s.overrides[i], v.override(j))
		}
	}
	s.inputs = inputs(rules)
	for i := range rules {
		s.compiled[i] = s.inputs.compile(&rules[i])
	}
	s.canonical = encode(rules, regions)
	s.Version = version(s.canonical)
	s.Content = s.Version
	if keys := encodeKeys(rules); keys != nil {
		s.Content += "+" + version(keys)
	}
	return s
}

// override names the variant j, see [Set.Override]. The highest bit is set, so that it is
// not 0.
func (v *Variant) override(j int) uint64 {
	if j == 0 {
		return 0
	}
	w := writer{buf: append([]byte("name "), v.Name...)}
	if v.Name == "" {
		w = writer{}
		w.open('{').match("when", v.When, whenFields)
	}
	high, low := hash128(w.buf)
	return (high ^ low) | 1<<63
}

// version names canonical bytes by their FNV-1a 128 in hexadecimal.
func version(canonical []byte) string {
	return string(appendHash(nil, canonical))
}
