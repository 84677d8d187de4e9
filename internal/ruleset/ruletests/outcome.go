package ruletests

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/exact"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/response"
)

// outcome is what became of a request.
type outcome struct {
	verdict string            // allowed or denied
	rule    string            // that denies or is nearest its limit, or noRule
	fields  map[string]string // of an expectation, by their names; empty: they are absent
	counted *rule.Rule        // whose key is counted; nil: none
}

// outcome is that of the request that was decided last; whole: with the fields of an expectation.
func (p *player) outcome(whole bool) outcome {
	r := &p.edge
	o := outcome{verdict: allowed, rule: noRule}
	if r.Outcome == edge.Deny {
		o.verdict = denied
	}
	g := r.Governing(rule.AnyHeaders)
	if g != nil {
		o.rule = g.Rule.Name
	}
	if r.Shed != nil {
		o.rule = r.Shed.Name
	}
	if !whole {
		return o
	}
	slices.Sort(r.WouldDeny)
	o.fields = map[string]string{"failed": strconv.FormatBool(r.Degraded), "shadow": shown(slices.Compact(r.WouldDeny))}
	if g != nil {
		o.counted = g.Rule
		o.fields["key"] = p.keys[g.Rule]
		o.fields["override"] = g.Override()
		o.fields["remaining"] = strconv.FormatInt(g.Remaining, 10)
	}
	header := func(name, value string) { o.fields[headerField+name] = strings.Clone(value) }
	m := response.Maker{Headers: true, TimeOfDay: func(*edge.Request) limit.Micros { return p.now }}
	if o.verdict == allowed {
		m.Admitted(r, header, header)
		return o
	}
	f := response.Reject(r, false)
	o.fields["status"] = strconv.Itoa(f.Status)
	m.Rejected(r, &f, header)
	if seconds := o.fields[headerField+"retry-after"]; seconds != "" {
		o.fields["retry_after"] = seconds + "s"
	}
	return o
}

// is reports whether the verdict is the expected one.
func (o *outcome) is(e *expect) bool {
	return (e.outcome == "" || e.outcome == o.verdict) && (e.rule == "" || e.rule == o.rule || e.rule == rule.Written(o.rule))
}

// String is the outcome in words.
func (o *outcome) String() string {
	text := by(o.verdict, o.rule)
	for _, name := range []string{"override", "key", "remaining"} {
		if got := o.fields[name]; got != "" && (name != "remaining" || o.verdict == allowed) {
			text += ", " + name + " " + got
		}
	}
	if o.fields["failed"] == "true" {
		text += ", failed"
	}
	return text
}

// by is a verdict in words; an empty rule is any.
func by(verdict, name string) string {
	switch name {
	case "":
		return verdict
	case noRule:
		name = "no rule"
	}
	return verdict + " by " + name
}

// got is the value of a field; empty: it is absent.
func (o *outcome) got(f *field) string {
	if r, key := o.counted, o.fields["key"]; r != nil && f.values != nil && len(r.KeyParts(f.values)) == len(r.Key) &&
		(string(r.KeyOf(f.values)) == key || r.Hash && string(r.HashedKeyOf(f.values, &exact.Secret)) == key) {
		return f.want // such as an address in the network that is counted
	}
	return o.fields[f.name]
}

// shown is a value of the field for people.
func (f *field) shown(value string) string {
	if value == "" && f.name != "key" {
		value = "null"
	}
	return f.name + " " + value
}
