package envoyrls

import (
	"slices"
	"strings"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// hitBench counts hits.
func hitBench(t testing.TB, yaml string, change ...func(*Config)) *bench {
	t.Helper()
	return newBench(t, yaml, append(change, func(c *Config) { c.HitMetrics = true })...)
}

// stats demands that the samples of envoyproxy/ratelimit's metrics are these, whose
// names begin with ratelimit_service_ and kind.
func (b *bench) stats(kind string, want ...string) {
	b.t.Helper()
	var got []string
	for line := range strings.Lines(b.scrape()) {
		if sample, ok := strings.CutPrefix(line, "ratelimit_service_"+kind); ok {
			got = append(got, strings.TrimSuffix(sample, "\n"))
		}
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("%s:\n got %s\nwant %s", kind, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

const hitYAML = `
domain: d
descriptors:
  - { key: a, rate_limit: &five { unit: hour, requests_per_unit: 5 } }
  - { key: plan, value: gold, rate_limit: *five }
  - { key: try, shadow_mode: true, rate_limit: *five }
  - { key: nothing, rate_limit: { unit: hour, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true } }
`

// TestHits: with the sums that envoyproxy/ratelimit (f2fb1577) makes of the same requests,
// with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT.
func TestHits(t *testing.T) {
	b := hitBench(t, hitYAML)
	for _, r := range []*rlspb.RateLimitRequest{
		hits(4, request(of("a", "v"))), hits(3, request(of("a", "v"))),
		request(of("plan", "gold")), request(of("nobody", ""), of("free", "")), request(costing(0, of("plan", "gold"))),
		hits(4, request(of("try", "k"))), hits(3, request(of("try", "k"))),
		hits(9, request(of("a", "w"), of("plan", "gold"))), request(of("a", "x"), of("nothing", "")),
	} {
		b.ask(r)
	}
	b.stats("rate_limit_total_hits",
		`{domain="d",key1="a",key2=""} 17`, `{domain="d",key1="nothing",key2=""} 1`, `{domain="d",key1="plan_gold",key2=""} 10`, `{domain="d",key1="try",key2=""} 7`)
	b.stats("rate_limit_over_limit",
		`{domain="d",key1="a",key2=""} 6`, `{domain="d",key1="nothing",key2=""} 1`, `{domain="d",key1="plan_gold",key2=""} 5`, `{domain="d",key1="try",key2=""} 2`)
	b.stats("rate_limit_near_limit",
		`{domain="d",key1="a",key2=""} 2`, `{domain="d",key1="plan_gold",key2=""} 1`, `{domain="d",key1="try",key2=""} 1`)
	b.stats("rate_limit_within_limit",
		`{domain="d",key1="a",key2=""} 5`, `{domain="d",key1="plan_gold",key2=""} 1`, `{domain="d",key1="try",key2=""} 4`)
	b.stats("rate_limit_shadow_mode", `{domain="d",key1="try",key2=""} 2`)
}

// TestHitsOfTheConfiguration: there are as many labels as rules and room for the names that
// clients make. Rules with the same labels count together, until the last has gone.
func TestHitsOfTheConfiguration(t *testing.T) {
	const deep = `
domain: d
descriptors:
  - { key: user, detailed_metric: true, rate_limit: &five { unit: hour, requests_per_unit: 5 } }
  - key: a
    descriptors:
      - { key: b, descriptors: [{ key: c, rate_limit: *five }, { key: REST, rate_limit: *five }] }
`
	b := hitBench(t, strings.Replace(deep, "REST", "d", 1))
	for i := range 2 * maxDetailed {
		b.ask(request(of("user", strconvU(uint32(i)))))
	}
	if n := b.series("ratelimit_service_rate_limit_total_hits"); n != maxDetailed+1 {
		t.Errorf("%d sets of labels, want %d", n, maxDetailed+1)
	}
	b.ask(request(of("a", "", "b", "", "c", ""), of("a", "", "b", "", "d", "")))
	b.configure(strings.Replace(deep, "REST", "e", 1))
	b.stats("rate_limit_total_hits", `{domain="d",key1="a",key2="b"} 2`, `{domain="d",key1="user",key2=""} 1000`)
	b.configure("domain: d\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 5 } }]")
	b.stats("rate_limit_total_hits", `{domain="d",key1="user",key2=""} 1000`)
	b.configure(`{ domain: d, descriptors: [{ key: user, value: "a\e\N|", rate_limit: { unit: hour, requests_per_unit: 5 } }] }`)
	b.ask(request(of("user", "a\x1b\u0085|")))
	b.stats("rate_limit_total_hits", `{domain="d",key1="user_a___",key2=""} 1`)
	b.configure("domain: d")
	b.stats("rate_limit_total_hits")
}
