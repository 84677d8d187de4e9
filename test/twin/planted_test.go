package twin

import (
	"slices"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
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

// Each single thing that is changed in Weir's answers is seen, by the first request that shows it.
func TestPlantedDifferences(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	type response = rlspb.RateLimitResponse
	cases := []struct {
		at     int // the request that shows it, from 1
		mutate func(*response)
	}{
		{1, func(r *response) { r.OverallCode = overLimit }},
		{4, func(r *response) { r.OverallCode = ok }},
		{1, func(r *response) { r.Statuses = r.Statuses[:1] }},
		{4, func(r *response) { // as if the denied request were charged
			if r.OverallCode == overLimit {
				r.Statuses[0].LimitRemaining--
			}
		}},
		{1, func(r *response) { r.Statuses[0].DurationUntilReset.Seconds += skew + 2 }},
		{1, func(r *response) { r.Statuses[0].DurationUntilReset.Nanos = 1 }},
		{1, func(r *response) { r.Statuses[1].DurationUntilReset = nil }},
		{1, func(r *response) { r.ResponseHeadersToAdd[1].Value = "17" }},
		{1, func(r *response) { r.ResponseHeadersToAdd[2].Value += "0" }},
		{1, func(r *response) { delete(r.DynamicMetadata.Fields, "descriptors") }},
	}
	p := start(t, mode{store: "memory"}, slices.Repeat([][]*node{plantedConfig}, len(cases)+1)...)
	if d := p.play(t, domainOf(len(cases)), plantedConfig, planted()); d != nil {
		t.Fatalf("nothing is planted: %s", report(t, scenario{config: plantedConfig, requests: planted()}, d))
	}
	for i, c := range cases {
		p.mutate = c.mutate
		d := p.play(t, domainOf(i), plantedConfig, planted())
		if d == nil || d.at+1 != c.at {
			t.Errorf("case %d: seen %+v, want it at request %d", i, d, c.at)
		}
	}
}
