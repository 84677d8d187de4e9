package rule

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/digest"
	"github.com/weirlimit/weir/internal/rule/settle"
)

// Set is a set of rules, checked and ready to be evaluated. It is immutable and
// safe for concurrent use.
type Set struct {
	// Version names the set: the hash of its canonical bytes. Two sets that mean
	// the same have the same version, whatever they were read from.
	Version string
	// Revision orders sets: the larger one is newer. 0: unknown. It is no part of the
	// version or the compiled form: a set with the same content as before is the same
	// set. See [Set.Dated].
	Revision uint64
	// Content is the version and, where single keys have limits of their own, a hash of
	// these limits. The version does not cover them, because edges do not have them.
	Content string

	rules      []Rule
	regions    Regions
	seed       uint64
	byName     map[string]int
	inputs     Inputs
	evaluators []evaluator
	index      index
	exempt     int // how many of the rules are Exempt; they are the first
	canonical  []byte
}

// stated is added to a revision that a document states: it is newer than every revision
// that is the time of a file, however small the stated number is.
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

// Numbered returns the set with a revision as if its document stated it: number is 1 to
// 2^53-1. It is for sources that number their rules.
func (s *Set) Numbered(number uint64) *Set {
	numbered := *s
	numbered.Revision = stated + number
	return &numbered
}

// Stated reports whether the revision is one that the document stated.
func (s *Set) Stated() bool { return s.Revision >= stated }

// Number returns the revision for people: the one that the document states, else the one
// that the set was dated with.
func (s *Set) Number() uint64 { return Number(s.Revision) }

// Number is [Set.Number] of a revision.
func Number(revision uint64) uint64 { return revision &^ stated }

// WithoutKeys returns the set without the limits of single keys, of which there may be many, for who has used them.
func (s *Set) WithoutKeys() *Set {
	lean := *s
	lean.rules = slices.Clone(s.rules)
	for i := range lean.rules {
		lean.rules[i].Keys = nil
	}
	return &lean
}

// Len returns the number of rules, with those that are off.
func (s *Set) Len() int { return len(s.rules) }

// Rule returns the rule i with its defaults filled in, 0 <= i < Len. It must not
// be changed.
func (s *Set) Rule(i int) *Rule { return &s.rules[i] }

// Regions are those that have shares of the limits with ScopeGlobal. They must not be
// changed.
func (s *Set) Regions() Regions { return s.regions }

// Seed begins the hash that [Percent] is about: 0 to 2^53-1. With another seed other keys are among
// the first percent.
func (s *Set) Seed() uint64 { return s.seed }

// Find returns the index of the rule of that name.
func (s *Set) Find(name string) (i int, ok bool) {
	i, ok = s.byName[name]
	return i, ok
}

// Named are the rules of that name, and those that the rule with this name in the document was expanded into.
func (s *Set) Named(name string) (all []*Rule) {
	for i := range s.rules {
		if r := &s.rules[i]; r.Name == name || Written(r.Name) == name {
			all = append(all, r)
		}
	}
	return all
}

// Limit returns a limit of the rule i: 0 for the base limit, j+1 for the override
// j. It is nil if there is no such variant: the caller may have other rules.
func (s *Set) Limit(i, variant int) *limit.Limit {
	if variants := s.evaluators[i].variants; variant >= 0 && variant < len(variants) {
		return variants[variant].limit
	}
	return nil
}

// Override identifies a variant of the rule i by its content and not by its place: 0 is
// the base limit, an override has a hash of its name or, without one, of its condition. It
// is the same in every set that has this override, whatever its limit and the other
// overrides are. The variant must be one of the rule's.
func (s *Set) Override(i, variant int) uint64 { return s.evaluators[i].variants[variant].id }

// Inputs returns what the rules look at. It must not be changed.
func (s *Set) Inputs() *Inputs { return &s.inputs }

// Encode returns the compiled form of the set: its canonical bytes. Limits of single keys
// are not among them: there may be many, and edges do not need them. The bytes must not be
// changed.
func (s *Set) Encode() []byte { return s.canonical }

// fill fills in the defaults of a rule that has passed the checks.
func (r *Rule) fill() {
	if r.Mode == Exempt {
		return
	}
	r.Cost.Default = cmp.Or(r.Cost.Default, 1)
	if r.Cost.Actual.Stated() {
		r.Cost.Actual.MaxStream = cmp.Or(r.Cost.Actual.MaxStream, settle.DefaultMaxStream)
	}
	if r.Consistency == lease.Optimistic {
		r.Overdraft = cmp.Or(r.Overdraft, defaultOverdraft)
	}
	r.DenyStatus = cmp.Or(r.DenyStatus, defaultDenyStatus)
	r.ExpectedPoPs = cmp.Or(r.ExpectedPoPs, defaultExpectedPoPs)
	r.Timeout = cmp.Or(r.Timeout, r.Scope.defaultTimeout())
	r.LeaseInterval = cmp.Or(r.LeaseInterval, DefaultLeaseInterval)
	r.Headers = cmp.Or(r.Headers, Draft)
	r.Rejection = r.Rejection.WithDefaults()
	if r.Shed != nil {
		r.Shed.fill()
	}
	for s := range r.Specs() {
		*s = s.WithDefaults()
	}
	for _, p := range r.Key {
		for i := range p {
			if p[i].From == FromClientIP {
				p[i].IPv6Prefix = cmp.Or(p[i].IPv6Prefix, defaultIPv6Prefix)
			}
		}
	}
}

// NewSet makes a set of rules, regions and a seed that package check has found legal. It keeps
// what they point to, and fills in the defaults. Exempt rules become the first: what they
// lift is known before another rule is evaluated.
func NewSet(rules []Rule, regions Regions, seed uint64) *Set {
	exempt := exemptFirst(rules)
	s := &Set{
		rules:      rules,
		regions:    regions,
		seed:       seed,
		byName:     make(map[string]int, len(rules)),
		evaluators: make([]evaluator, len(rules)),
		index:      newIndex(rules, exempt),
		exempt:     exempt,
	}
	for i := range rules {
		rules[i].fill()
		s.byName[rules[i].Name] = i
	}
	s.inputs = inputs(rules)
	s.inputs.ByPath = s.index.narrow
	for i := range rules {
		s.evaluators[i] = s.inputs.evaluator(&rules[i], seed)
	}
	s.lift()
	s.canonical = encode(rules, regions, seed)
	s.Version = version(s.canonical)
	s.Content = s.Version
	if keys := encodeKeys(rules); keys != nil {
		s.Content += "+" + version(keys)
	}
	return s
}

// ID names the variant j, see [Set.Override]. The highest bit is set, so that it is
// not 0.
func (v *Variant) ID(j int) uint64 {
	if j == 0 {
		return 0
	}
	w := writer{buf: append([]byte("name "), v.Name...)}
	if v.Name == "" {
		w = writer{}
		when := v.When
		when.Until = 0 // its end changes nothing else
		w.open('{').match("when", &when)
	}
	sum := digest.Sum(w.buf)
	return binary.BigEndian.Uint64(sum[:]) | 1<<63
}

// version names canonical bytes.
func version(canonical []byte) string { return string(digest.Append(nil, canonical)) }

// Region is a region and its weight when shares are cut from limits with
// [ScopeGlobal].
type Region struct {
	Name   string // see IsRegion; unique
	Weight int64  // 1 to 1000
}

// Regions are the regions that have shares, sorted by name. Empty: no region has one.
type Regions []Region

// MaxRegions bounds the regions of a set.
const MaxRegions = 64

// RegionForm is what [IsRegion] accepts, for messages.
const RegionForm = "1 to 64 letters, digits, -, . or _"

// IsRegion reports whether a region can have this name: in rules, settings, calls and
// certificates, which are compared with each other byte by byte.
//
//go:noinline
func IsRegion(name string) bool {
	return name != "" && len(name) <= MaxName && !strings.ContainsFunc(name, func(r rune) bool { return !IsNameRune(r) && r != '.' })
}

// Share is how many of these units, 0 to limit.MaxCount, a region may admit while it is cut
// off from the others. It is rounded down: all shares together are at most units. A region
// that is not among rs has none.
func (rs Regions) Share(name string, units int64) int64 {
	var weight, sum int64
	for _, r := range rs {
		sum += r.Weight
		if r.Name == name {
			weight = r.Weight
		}
	}
	if weight == 0 {
		return 0
	}
	return units * weight / sum
}

// Divide reports whether the regions have shares of a limit. They do if they count it
// together, and each goes on by itself while it is cut off.
func (rs Regions) Divide(s Scope, by lease.OnFailure) bool {
	return len(rs) > 0 && s == ScopeGlobal && by == lease.FailureLocal
}
