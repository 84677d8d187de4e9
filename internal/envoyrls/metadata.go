package envoyrls

import (
	"fmt"
	"maps"
	"unicode/utf8"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/rule"
)

// dynamicMetadata makes the metadata of a decision for Envoy's filters and its access log,
// under envoy.filters.http.ratelimit:
//
//	domain       of the request
//	descriptors  of the request: entries ["key=value"], limit and hitsAddend if it
//	             has them, rule: the name in metrics if one matched, degraded: how it
//	             was decided if the store did not answer
//	hitsAddend   of the request, if it has one
//	metadata     of the rules that let the request pass, merged; the first of two
//	             values of one field counts. A rule in shadow mode always lets it
//	             pass; unlimited ones are left out
//	degraded     true if any descriptor is
//
// These are the fields of envoyproxy/ratelimit, and in addition rule and degraded.
func dynamicMetadata(q *query) *structpb.Struct {
	descriptors, passed := make([]any, len(q.request.Descriptors)), map[string]any{}
	fields := map[string]any{"domain": legible(q.request.Domain), "descriptors": descriptors}
	for i := range q.Descriptors {
		d, v := &q.Descriptors[i], q.Judgment(i)
		if i < len(descriptors) {
			descriptors[i] = q.describe(i)
		}
		if v != nil && v.Degraded != engine.Sound {
			fields["degraded"] = true
		}
		if r := q.matched[i].rule.InConfig(); r != nil && v != nil && (!d.Over || d.Mode == decision.Shadow) {
			merge(passed, r.Metadata)
		}
	}
	if hits := q.request.HitsAddend; hits != 0 {
		fields["hitsAddend"] = hits
	}
	if len(passed) > 0 {
		fields["metadata"] = passed
	}
	s, _ := structpb.NewStruct(fields) // of what a Struct can hold
	return s
}

// describe makes the metadata of descriptor i.
func (q *query) describe(i int) map[string]any {
	asked, shown := q.request.Descriptors[i], q.matched[i].shown
	m, v := &q.matched[shown], q.Judgment(shown)
	entries := make([]any, len(m.entries))
	for j := range m.entries {
		entries[j] = legible(m.entries[j].Key + "=" + m.entries[j].Value)
	}
	fields := map[string]any{"entries": entries}
	if asked.Limit != nil {
		fields["limit"] = limitText(asked.Limit)
	}
	if asked.HitsAddend != nil {
		fields["hitsAddend"] = asked.HitsAddend.Value
	}
	if m.rule != nil {
		fields["rule"] = m.rule.Counts.Name
	}
	if v != nil && v.Degraded != engine.Sound {
		fields["degraded"] = v.Degraded.String()
	}
	return fields
}

// legible is a text that is not UTF-8, which protobuf rejects, in the notation of keys. Other texts stay as they are.
func legible(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string(rule.AppendKeyPart(nil, text))
}

// limitText is a limit in the text format of protobuf, without zeros, which
// envoyproxy/ratelimit uses. Protobuf's own writer does not guarantee stable output.
func limitText(l *ratelimitpb.RateLimitDescriptor_RateLimitOverride) string {
	if l.RequestsPerUnit == 0 {
		return fmt.Sprintf("unit:%s", l.Unit)
	}
	return fmt.Sprintf("requests_per_unit:%d unit:%s", l.RequestsPerUnit, l.Unit)
}

// merge adds to fields the fields that they lack, in mappings recursively. It never
// changes from.
func merge(fields, from map[string]any) {
	for name, value := range from {
		present, ok := fields[name]
		own, isMap := present.(map[string]any)
		more, isMore := value.(map[string]any)
		switch {
		case !ok:
			fields[name] = value
		case isMap && isMore:
			both := maps.Clone(own)
			merge(both, more)
			fields[name] = both
		}
	}
}
