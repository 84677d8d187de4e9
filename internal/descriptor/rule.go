package descriptor

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir/internal/limit"
)

// Entry is one step of a descriptor. The key is not empty, the value may be.
type Entry struct{ Key, Value string }

// Rule is the rate_limit of one level with the flags that stand beside it. It is
// immutable and safe for concurrent use.
type Rule struct {
	// Path is unique in the configuration: the domain and the keys of all levels
	// with the values that the file gives them, as in
	// "messaging|message_type=marketing|to_number". What would be ambiguous in it is
	// written as %XX. It names the counters and the metrics.
	Path   string
	Domain string
	// Name is shown in current_limit and is what other rules replace; may be empty.
	Name string
	// Replaces are the names of rules that are neither checked nor charged when
	// this one is matched by the same request. See [Replaced].
	Replaces []string
	// RequestsPerUnit is 0 to 2^32-1; 0 denies everything.
	RequestsPerUnit uint32
	Unit            Unit // none if Unlimited
	Unlimited       bool // allowed, never counted
	Shadow          bool // counted, always allowed
	Quota           bool // denies only together with all other quota rules of the request
	DetailedMetric  bool // the metric has the values of all levels
	ValueToMetric   bool // at least one level's value is in the metric
	// Metadata is returned in dynamic metadata when the rule passed: null, booleans,
	// float64, strings, lists ([]any) and maps (map[string]any) of these. Nil if
	// there is none. Do not change it.
	Metadata map[string]any
	// Limit is a fixed window aligned to the clock; nil if Unlimited.
	Limit *limit.Limit
	// File and Line are where the descriptor begins that has the rule.
	File string
	Line int

	levels  []level
	varying int // levels whose value is part of the counter's key
}

// level is one step of the way to a rule, as the file has it.
type level struct {
	key, value    string // value is empty for the key alone
	wildcard      bool   // value has a *
	share         bool   // share_threshold
	valueToMetric bool
}

// varies reports whether requests with different values at this level have
// different counters.
func (l *level) varies() bool { return l.value == "" || l.wildcard && !l.share }

// bound sets the limit's numbers, which unlimited rules have not.
func (r *Rule) bound(requestsPerUnit uint32, unit Unit) error {
	if unit.Period() == 0 {
		return fmt.Errorf("the unit of the limit is unknown; it is one of %s", unitNames)
	}
	l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: int64(requestsPerUnit), Period: unit.Period()})
	if err != nil {
		return err
	}
	r.RequestsPerUnit, r.Unit, r.Unlimited, r.Limit = requestsPerUnit, unit, false, l
	return nil
}

// setLevels derives what follows from the levels.
func (r *Rule) setLevels(levels []level) {
	r.levels, r.varying = levels, 0
	for i := range levels {
		if levels[i].varies() {
			r.varying++
		}
		r.ValueToMetric = r.ValueToMetric || levels[i].valueToMetric
	}
}

// DomainPath is how the paths of a domain's rules begin, without the bar after it.
func DomainPath(domain string) string { return string(appendKeyName(nil, domain)) }

// Match is a rule that was found for a descriptor. The zero value is none.
type Match struct{ Rule *Rule }

// AppendKey appends the key of a counter of the rule: the values of levels without a value
// in the file, and of wildcards unless they share a threshold. The other values are in the
// rule's Path. entries are the matched ones; two lists give the same bytes only if they
// share a counter. It may append nothing: then the rule has one counter.
func (m Match) AppendKey(dst []byte, entries []Entry) []byte {
	first := true
	for i := range m.Rule.levels {
		if i >= len(entries) || !m.Rule.levels[i].varies() {
			continue
		}
		if !first {
			dst = append(dst, '|')
		}
		first = false
		if m.Rule.varying == 1 {
			dst = append(dst, entries[i].Value...)
		} else {
			dst = appendKeyPart(dst, entries[i].Value)
		}
	}
	return dst
}

// AppendMetric appends the name of the rule in metrics: its Path, with the values
// that came with the request where detailed_metric or value_to_metric want them. A
// wildcard with share_threshold is always shown as the file has it. How many names
// there can be is then up to clients; without these flags it is always the Path.
func (m Match) AppendMetric(dst []byte, entries []Entry) []byte {
	r := m.Rule
	if !r.DetailedMetric && !r.ValueToMetric {
		return append(dst, r.Path...)
	}
	dst = appendKeyName(dst, r.Domain)
	for i := range r.levels {
		l := &r.levels[i]
		value := l.value
		if l.varies() && (r.DetailedMetric || l.valueToMetric) && i < len(entries) {
			value = entries[i].Value
		}
		dst = appendLevel(dst, l.key, value)
	}
	return dst
}

// AppendStatName appends the name of the rule in envoyproxy/ratelimit's statistics, with
// the request's values where detailed_metric or value_to_metric want them, and, without
// entries, the name in its printed configuration:
// "messaging.message_type_marketing.to_number". Different rules may have the same.
func (m Match) AppendStatName(dst []byte, entries []Entry) []byte {
	r := m.Rule
	shares := slices.ContainsFunc(r.levels, func(l level) bool { return l.wildcard && l.share })
	dst = append(dst, r.Domain...)
	for i := range r.levels {
		l := &r.levels[i]
		dst = append(append(dst, '.'), l.key...)
		value, bare := l.value, false // bare: the _ stands before an empty value too
		if i < len(entries) && !(l.wildcard && l.share) && (r.DetailedMetric || l.varies() && l.valueToMetric) {
			value, bare = entries[i].Value, r.DetailedMetric && !shares
		}
		if value != "" || bare {
			dst = append(append(dst, '_'), value...)
		}
	}
	return dst
}

// Replaced reports, by index, which matches of one request are replaced by others of it;
// nil if none is. A rule that is itself replaced still replaces others, and so does an
// unlimited one. A match without a rule is never replaced.
func Replaced(matches []Match) []bool {
	var names map[string]bool
	for _, m := range matches {
		if m.Rule == nil {
			continue
		}
		for _, name := range m.Rule.Replaces {
			if names == nil {
				names = map[string]bool{}
			}
			names[name] = true
		}
	}
	if names == nil {
		return nil
	}
	var replaced []bool
	for i, m := range matches {
		if m.Rule != nil && names[m.Rule.Name] {
			if replaced == nil {
				replaced = make([]bool, len(matches))
			}
			replaced[i] = true
		}
	}
	return replaced
}
