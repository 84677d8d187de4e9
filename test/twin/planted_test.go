package twin

import (
	"slices"
	"strings"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

var plantedConfig = []*node{
	{Key: "a", RateLimit: &rateLimit{Name: "r1", Unit: "hour", RequestsPerUnit: 3}},
	{Key: "b", RateLimit: &rateLimit{Name: "r2", Unit: "day", RequestsPerUnit: 9}, ShadowMode: true},
}

// planted asks five times about both rules, of which one is over at the end.
func planted() (requests []*rlspb.RateLimitRequest) {
	for range 5 {
		r := &rlspb.RateLimitRequest{}
		for _, key := range []string{"b", "a"} {
			r.Descriptors = append(r.Descriptors, &ratelimitpb.RateLimitDescriptor{
				Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: key, Value: "x"}}})
		}
		requests = append(requests, r)
	}
	return requests
}

// Each single thing that is changed in Weir's answers is seen, and where, and with no
// more requests than it takes.
func TestPlantedDifferences(t *testing.T) {
	type response = rlspb.RateLimitResponse
	cases := []struct {
		what   string
		fewest int // requests
		mutate func(*response)
	}{
		{"overall_code", 1, func(r *response) { r.OverallCode = overLimit }},
		{"overall_code", 4, func(r *response) { r.OverallCode = ok }},
		{"statuses", 1, func(r *response) { r.Statuses = r.Statuses[:1] }},
		{"statuses[0].code", 1, func(r *response) { r.Statuses[0].Code = overLimit }},
		{"statuses[1].code", 4, func(r *response) { r.Statuses[1].Code = ok }},
		{"statuses[1].current_limit", 1, func(r *response) { r.Statuses[1].CurrentLimit.RequestsPerUnit++ }},
		{"statuses[1].current_limit", 1, func(r *response) { r.Statuses[1].CurrentLimit.Name = "other" }},
		{"statuses[0].limit_remaining", 1, func(r *response) { r.Statuses[0].LimitRemaining++ }},
		{"statuses[0].limit_remaining", 4, func(r *response) { // as if the denied request were charged
			if r.OverallCode == overLimit {
				r.Statuses[0].LimitRemaining--
			}
		}},
		{"statuses[0].duration_until_reset", 1, func(r *response) { r.Statuses[0].DurationUntilReset.Seconds += skew + 2 }},
		{"statuses[0].duration_until_reset", 1, func(r *response) { r.Statuses[0].DurationUntilReset.Nanos = 1 }},
		{"statuses[1].duration_until_reset", 1, func(r *response) { r.Statuses[1].DurationUntilReset = nil }},
		{"statuses[1].duration_until_reset", 1, func(r *response) { r.Statuses[1].DurationUntilReset = &durationpb.Duration{} }},
		{"response_headers_to_add", 1, func(r *response) { r.ResponseHeadersToAdd[1].Value = "17" }},
		{"response_headers_to_add", 1, func(r *response) { r.ResponseHeadersToAdd[2].Value += "0" }},
		{"response_headers_to_add", 1, func(r *response) {
			r.ResponseHeadersToAdd = append(r.ResponseHeadersToAdd, &corepb.HeaderValue{Key: "x-more", Value: "1"})
		}},
		{"dynamic_metadata", 1, func(r *response) { r.DynamicMetadata.Fields["domain"] = structpb.NewStringValue("other") }},
		{"dynamic_metadata", 1, func(r *response) { delete(r.DynamicMetadata.Fields, "descriptors") }},
		{"other fields", 1, func(r *response) { r.RawBody = []byte("body") }},
	}
	p := start(t, mode{store: "memory", replicas: 1}, slices.Repeat([][]*node{plantedConfig}, len(cases)+1)...)
	if d := p.play(t, domainOf(len(cases)), plantedConfig, planted()); d != nil {
		t.Fatalf("nothing is planted: %s", report(t, scenario{config: plantedConfig, requests: planted()}, d))
	}
	for i, c := range cases {
		p.mutate = c.mutate
		d := p.play(t, domainOf(i), plantedConfig, planted())
		switch {
		case d == nil:
			t.Errorf("case %d, %s: not seen", i, c.what)
		case d.what != c.what || d.at+1 != c.fewest:
			t.Errorf("case %d, %s: seen %s after %d requests, want %d", i, c.what, d.what, d.at+1, c.fewest)
		}
	}
}

// A failure lists the fewest requests and descriptors that show it.
func TestShrink(t *testing.T) {
	s := scenarioOf(1, features{shadow: true, costs: true})
	node := *plantedConfig[0]
	node.Key = "p"
	s.config = append(s.config, &node)
	for _, r := range planted() {
		r.Descriptors[1].Entries[0].Key = "p"
		s.requests = append(s.requests, r)
	}
	p := start(t, mode{store: "memory", replicas: 1}, s.config)
	p.mutate = func(r *rlspb.RateLimitResponse) { // the fourth is let through
		for _, st := range r.Statuses {
			if st.GetCurrentLimit().GetName() == "r1" {
				st.Code = ok
			}
		}
	}
	d := p.play(t, domainOf(0), s.config, s.requests)
	if d == nil {
		t.Fatal("not seen")
	}
	small, d := p.shrink(t, s, d)
	text := report(t, small, d)
	if len(small.requests) != 4 || len(small.requests[0].Descriptors) != 1 || len(small.config) != 1 {
		t.Errorf("not the fewest:\n%s", text)
	}
	for _, want := range []string{"seed 1: statuses[0].code", "requests_per_unit: 3", `"key":"p"`, "Weir:", "envoyproxy/ratelimit:"} {
		if !strings.Contains(strings.ReplaceAll(text, `": "`, `":"`), want) {
			t.Errorf("the report does not have %s:\n%s", want, text)
		}
	}
}
