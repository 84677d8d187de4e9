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
	fields := map[string]*structpb.Value{"domain": structpb.NewStringValue(legible(q.request.Domain))}
	descriptors := make([]*structpb.Value, len(q.request.Descriptors))
	passed := map[string]*structpb.Value{}
	for i := range q.Descriptors {
		d, v := &q.Descriptors[i], q.Judgment(i)
		if i < len(descriptors) {
			descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: q.describe(i)})
		}
		if v != nil && v.Degraded != engine.Sound {
			fields["degraded"] = structpb.NewBoolValue(true)
		}
		if v != nil && (!d.Over || d.Mode == decision.Shadow) {
			merge(passed, q.matched[i].rule.Metadata)
		}
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: descriptors})
	if hits := q.request.HitsAddend; hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	if len(passed) > 0 {
		fields["metadata"] = structpb.NewStructValue(&structpb.Struct{Fields: passed})
	}
	return &structpb.Struct{Fields: fields}
}

// describe makes the metadata of descriptor i.
func (q *query) describe(i int) map[string]*structpb.Value {
	asked, shown := q.request.Descriptors[i], q.matched[i].shown
	m, v := &q.matched[shown], q.Judgment(shown)
	entries := make([]*structpb.Value, len(m.entries))
	for j := range m.entries {
		entries[j] = structpb.NewStringValue(legible(m.entries[j].Key + "=" + m.entries[j].Value))
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if asked.Limit != nil {
		fields["limit"] = structpb.NewStringValue(limitText(asked.Limit))
	}
	if asked.HitsAddend != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(asked.HitsAddend.Value))
	}
	if m.rule != nil {
		fields["rule"] = structpb.NewStringValue(m.rule.Counts.Name)
	}
	if v != nil && v.Degraded != engine.Sound {
		fields["degraded"] = structpb.NewStringValue(v.Degraded.String())
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
func merge(fields map[string]*structpb.Value, from *structpb.Struct) {
	for name, value := range from.GetFields() {
		present, ok := fields[name]
		switch {
		case !ok:
			fields[name] = value
		case present.GetStructValue() != nil && value.GetStructValue() != nil:
			both := maps.Clone(present.GetStructValue().GetFields())
			if both == nil {
				both = map[string]*structpb.Value{}
			}
			merge(both, value.GetStructValue())
			fields[name] = structpb.NewStructValue(&structpb.Struct{Fields: both})
		}
	}
}
