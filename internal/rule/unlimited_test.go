package rule_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// TestUnlimited: a rule does not apply to requests of an override without a limit, until that ends; then the next one
// decides, and nothing else changes.
func TestUnlimited(t *testing.T) {
	const doc = `{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":"5/1m","overrides":[
		{"when":{"header":{"x-tier":"staff"}},"limit":"unlimited","until":"2026-12-01T00:00:00Z"},
		{"when":{"header":{"x-tier":{"present":true}}},"limit":"7/1m"},
		{"key":["ann"],"limit":"unlimited"}]}]}`
	set := decode(t, doc)
	const end = 1_796_083_200 * limit.Second
	if got := set.Rule(0).Limits[1].When.Until; got != end {
		t.Fatalf("ends at %d, want %d", got, end)
	}
	again := decode(t, string(set.Encode()))
	if again.Version != set.Version || !again.Rule(0).Limits[1].Unlimited {
		t.Errorf("compiled form %s", set.Encode())
	}
	for _, set := range []*rule.Set{set, again} {
		for _, test := range []struct {
			now     limit.Micros
			tier    string
			variant int // -1: the rule does not apply
		}{{end - 1, "staff", -1}, {end, "staff", 2}, {end - 1, "gold", 2}, {end - 1, "", 0}} {
			q, m := request(set, "x-user", "ann", "x-tier", test.tier), rule.Matches{}
			if test.tier == "" {
				q = request(set, "x-user", "ann")
			}
			q.Now = test.now
			if set.Match(q, &m); (len(m.Hits) == 0) != (test.variant < 0) || len(m.Hits) > 0 && m.Hits[0].Variant != test.variant {
				t.Errorf("%+v: %+v", test, m.Hits)
			}
		}
	}
}
