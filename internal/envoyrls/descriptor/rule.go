package descriptor

import (
	"slices"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
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

	levels []*Level
}

// varies reports whether requests with different values at this level have
// different counters.
func (n *Level) varies() bool { return n.Value == "" || n.Wildcard && !n.Shared }

// DomainPath is how the paths of a domain's rules begin, with the bar. It names the counters of descriptors that no rule
// matches: no path and no rule of the rules file has this name.
func DomainPath(domain string) string { return string(appendKeyName(nil, domain)) + "|" }

// AppendKey appends the key of a counter of the rule: the values of levels without a value
// in the file, and of wildcards unless they share a threshold. The other values are in the
// rule's Path. entries are the matched ones; two lists give the same bytes only if they
// share a counter. It may append nothing: then the rule has one counter.
func (r *Rule) AppendKey(dst []byte, entries []Entry) []byte {
	first := true
	for i := range r.levels {
		if i >= len(entries) || !r.levels[i].varies() {
			continue
		}
		if !first {
			dst = append(dst, '|')
		}
		first = false
		dst = rule.AppendKeyPart(dst, entries[i].Value)
	}
	return dst
}

// AppendMetric appends the name of the rule in metrics: its Path, with the values
// that came with the request where detailed_metric or value_to_metric want them. A
// wildcard with share_threshold is always shown as the file has it. How many names
// there can be is then up to clients; without these flags it is always the Path.
func (r *Rule) AppendMetric(dst []byte, entries []Entry) []byte {
	if !r.DetailedMetric && !r.ValueToMetric {
		return append(dst, r.Path...)
	}
	dst = appendKeyName(dst, r.Domain)
	for i := range r.levels {
		l := r.levels[i]
		value := l.Value
		if l.varies() && (r.DetailedMetric || l.valueToMetric) && i < len(entries) {
			value = entries[i].Value
		}
		dst = appendLevel(dst, l.Key, value)
	}
	return dst
}

// AppendStatName appends the name of the rule in envoyproxy/ratelimit's statistics, with
// the request's values where detailed_metric or value_to_metric want them, and, without
// entries, the name in its printed configuration:
// "messaging.message_type_marketing.to_number". Different rules may have the same.
func (r *Rule) AppendStatName(dst []byte, entries []Entry) []byte {
	shares := slices.ContainsFunc(r.levels, func(l *Level) bool { return l.Wildcard && l.Shared })
	dst = append(dst, r.Domain...)
	for i := range r.levels {
		l := r.levels[i]
		dst = append(append(dst, '.'), l.Key...)
		value, bare := l.Value, false // bare: the _ stands before an empty value too
		if i < len(entries) && !(l.Wildcard && l.Shared) && (r.DetailedMetric || l.varies() && l.valueToMetric) {
			value, bare = entries[i].Value, r.DetailedMetric && !shares
		}
		if value != "" || bare {
			dst = append(append(dst, '_'), value...)
		}
	}
	return dst
}

// Replaced reports, by index, which rules of one request are replaced by others of it;
// nil if none is. A rule that is itself replaced still replaces others, and so does an
// unlimited one. An index without a rule is never replaced.
func Replaced(rules []*Rule) (replaced []bool) {
	for i, r := range rules {
		replaces := func(o *Rule) bool { return o != nil && slices.Contains(o.Replaces, r.Name) }
		if r == nil || !slices.ContainsFunc(rules, replaces) {
			continue
		}
		if replaced == nil {
			replaced = make([]bool, len(rules))
		}
		replaced[i] = true
	}
	return replaced
}
