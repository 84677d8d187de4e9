package envoyrls

import (
	"slices"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

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
	b := newBench(t, hitYAML, func(c *Config) { c.HitMetrics = true })
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

// TestHitsOfTheConfiguration: rules with the same labels count together, until the last has gone.
func TestHitsOfTheConfiguration(t *testing.T) {
	const deep = `
domain: d
descriptors:
  - key: a
    descriptors:
      - { key: b, descriptors: [{ key: c, rate_limit: &five { unit: hour, requests_per_unit: 5 } }, { key: REST, rate_limit: *five }] }
`
	b := newBench(t, strings.Replace(deep, "REST", "d", 1), func(c *Config) { c.HitMetrics = true })
	b.ask(request(of("a", "", "b", "", "c", ""), of("a", "", "b", "", "d", "")))
	b.configure(strings.Replace(deep, "REST", "e", 1))
	b.stats("rate_limit_total_hits", `{domain="d",key1="a",key2="b"} 2`)
	b.configure(`{ domain: d, descriptors: [{ key: user, value: "a\e\N|", rate_limit: { unit: hour, requests_per_unit: 5 } }] }`)
	b.ask(request(of("user", "a\x1b\u0085|")))
	b.stats("rate_limit_total_hits", `{domain="d",key1="user_a___",key2=""} 1`)
	b.configure("domain: d")
	b.stats("rate_limit_total_hits")
}

func perDay(n uint32, d *ratelimitpb.RateLimitDescriptor) *ratelimitpb.RateLimitDescriptor {
	return limited(n, typepb.RateLimitUnit_DAY, d)
}

// A counter that a request names several times is charged all of it or nothing, and each descriptor
// gets the answer that it would get after those before it, by its own limit; through a lease cache as
// without one. A check is over when nothing is left, unless the request was granted the last units.
func TestSeveralOfOneCounter(t *testing.T) {
	five := func(value string) *ratelimitpb.RateLimitDescriptor { return of("five", value) }
	bothWays(t, steps{
		{request(five("a"), five("a")), "OK: OK 4, OK 3"},
		{hits(2, request(five("a"), five("a"))), "OVER: OK 3, OVER 0"},
		{request(five("a"), costing(0, five("a")), five("a")), "OK: OK 2, OK 2, OK 1"},
		{request(five("a"), of("hundred", "a"), five("a")), "OVER: OK 1, OK 100, OVER 0"},
		{request(costing(0, five("a")), five("a")), "OK: OK 1, OK 0"},
		{request(costing(0, five("a")), five("a")), "OVER: OVER 0, OVER 0"},
		{request(five("b"), perDay(12, five("b"))), "OK: OK 4, OK 10"},
		{request(costing(0, five("b")), costing(5, perDay(12, five("b")))), "OK: OK 3, OK 5"},
		{request(perDay(12, five("b")), five("b")), "OVER: OK 5, OVER 0"},
		{request(costing(3, perDay(12, five("b"))), of("hundred", "b")), "OK: OK 2, OK 99"},
		{request(costing(0, five("b")), five("b")), "OVER: OVER 0, OVER 0"},
		{request(perDay(2, five("c")), five("c"), perDay(3, five("c"))), "OK: OK 1, OK 3, OK 0"},
		// Those that are judged by themselves are judged in their order.
		{request(of("quota", "f"), of("quota", "f")), "OK: OK 4, OK 3"},
		{request(of("try", "f"), costing(2, of("try", "f")), of("try", "f")), "OK: OK 4, OK 2, OK 1"},
		{request(perDay(12, of("quota", "g")), of("quota", "g")), "OK: OK 11, OK 3"},
		{request(costing(4, of("quota", "h")), perDay(2, of("quota", "h"))), "OK: OK 1, OVER 0"},
		{request(perDay(2, of("quota", "i")), costing(4, of("quota", "i")), of("quota", "i")), "OK: OK 1, OK 0, OVER 0"},
		{request(of("quota", "h"), of("quota", "h")), "OK: OK 0, OVER 0"},
		{request(costing(6, of("quota", "j")), of("quota", "j"), perDay(10, of("quota", "j"))), "OK: OVER 0, OVER 0, OK 2"},
		// Of a request that costs nothing each is answered all that was left: what others of its counter were granted
		// comes back, and a check before them is none of these.
		{request(of("one", "k")), "OK: OK 0"},
		{request(of("quota", "k")), "OK: OK 4"},
		{request(costing(0, of("quota", "k")), of("quota", "k"), of("quota", "k"), of("one", "k")), "OVER: OK 4, OK 4, OK 4, OVER 0"},
		{request(costing(0, of("quota", "k")), costing(9, of("quota", "k")), of("quota", "k"), of("one", "k")), "OVER: OK 4, OVER 0, OVER 0, OVER 0"},
		{request(costing(4, of("five", "k")), of("five", "k"), costing(0, of("five", "k")), perDay(0, of("none", "k"))), "OVER: OK 5, OK 5, OK 5, OVER 0"},
		{request(costing(9, of("dozen", "k"))), "OK: OK 3"},
		{request(perDay(6, of("dozen", "k")), of("dozen", "k")), "OVER: OVER 0, OK 3"},
		{request(perDay(2, of("dozen", "l")), of("one", "l")), "OK: OK 1, OK 0"},
		{request(perDay(2, of("dozen", "l")), of("one", "l")), "OVER: OK 1, OVER 0"},
		{request(limited(3, typepb.RateLimitUnit_HOUR, of("dozen", "l"))), "OK: OK 2"}, // of another window: another count
	}, false)
}

// Where denials are charged a check is judged in its place too, by its own limit.
func TestSeveralInOrderWhereDenialsAreCharged(t *testing.T) {
	bothWays(t, steps{
		{request(costing(3, of("five", "a")), costing(3, of("five", "a")), of("five", "a")), "OVER: OK 2, OVER 0, OVER 0"},
		{request(costing(0, of("hundred", "b")), costing(6, perDay(3, of("hundred", "b"))), costing(0, of("hundred", "b"))), "OVER: OK 100, OVER 0, OK 94"},
		{request(costing(2, of("quota", "c")), costing(9, perDay(2, of("quota", "c"))), of("quota", "c")), "OK: OK 3, OVER 0, OK 0"},
		{request(costing(5, of("five", "d")), costing(0, of("five", "d"))), "OK: OK 0, OK 0"},
		{request(costing(0, of("five", "d")), of("five", "d"), costing(0, of("five", "d"))), "OVER: OVER 0, OVER 0, OVER 0"},
	}, true)
}
