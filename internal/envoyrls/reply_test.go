package envoyrls

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// added are the response headers, "name: value" each.
func added(r *rlspb.RateLimitResponse) string {
	var lines []string
	for _, h := range r.ResponseHeadersToAdd {
		lines = append(lines, h.Key+": "+h.Value)
	}
	return strings.Join(lines, ", ")
}

func TestHeaders(t *testing.T) {
	b := newBench(t, specYAML, func(c *Config) { c.Headers = true })
	for _, c := range []struct {
		request *rlspb.RateLimitRequest
		want    string
	}{
		{request(of("nobody", "x")), ""},
		{request(of("free", "x")), ""},
		{request(of("try", "x")), "RateLimit-Limit: 1, RateLimit-Remaining: 0, RateLimit-Reset: 1800"},
		{request(of("user", "a"), of("host", "h")), "RateLimit-Limit: 2, RateLimit-Remaining: 1, RateLimit-Reset: 60"},
		{hits(3, request(of("user", "a"))), "RateLimit-Limit: 5, RateLimit-Remaining: 1, RateLimit-Reset: 1800"},
		{hits(2, request(of("user", "a"), of("host", "h"))), "RateLimit-Limit: 2, RateLimit-Remaining: 0, RateLimit-Reset: 60"},
		{request(of("nothing", ""), of("user", "a")), "RateLimit-Limit: 0, RateLimit-Remaining: 0, RateLimit-Reset: 516600"},
		{hits(9, request(of("nothing", ""), of("host", "h"), of("q1", ""))), "RateLimit-Limit: 2, RateLimit-Remaining: 0, RateLimit-Reset: 60"},
		{hits(9, request(of("q1", ""), of("try", "x"), of("q2", ""))), "RateLimit-Limit: 1, RateLimit-Remaining: 0, RateLimit-Reset: 1800"},
		{request(of("try", "y"), of("host", "z")), "RateLimit-Limit: 1, RateLimit-Remaining: 0, RateLimit-Reset: 1800"},
	} {
		if got := added(b.ask(c.request)); got != c.want {
			t.Errorf("%v:\n got %s\nwant %s", c.request, got, c.want)
		}
	}
}

// TestLocalFigures: what is left of a replica's share is stated where it is known, and
// never as nothing where it is not.
func TestLocalFigures(t *testing.T) {
	for want, j := range map[string]engine.Judgment{
		"OK: OK -":     {Admitted: true},
		"OK: OK 2":     {Admitted: true, Grant: lease.Grant{Remaining: 2}},
		"OVER: OVER 0": {Rejected: true},
	} {
		j.Degraded, j.Grant.Status, j.Grant.Limit, j.Grant.Reset = engine.FailedLocal, lease.Unavailable, 5, 60_000
		b := newBench(t, specYAML, func(c *Config) {
			c.Judge = replaced{c.Judge, func(_ context.Context, _ []engine.Ask, judgments []engine.Judgment) { judgments[0] = j }}
		})
		r := b.ask(request(of("user", "a")))
		if got := inShort(r); got != want {
			t.Errorf("%+v: %s, want %s", j, got, want)
		}
		st := r.Statuses[0]
		if d := st.DurationUntilReset.AsDuration(); st.CurrentLimit != nil && d != time.Minute {
			t.Errorf("%+v: duration_until_reset %v, want that of the share", j, d)
		}
	}
}

// TestDegraded: without the store each request follows on_failure, and its answer shows that.
func TestDegraded(t *testing.T) {
	for how, want := range map[lease.OnFailure]struct{ response, header string }{
		lease.FailureAllow: {"OK: OK -, OK 1", "allow"},
		lease.FailureDeny:  {"OVER: OVER 0, OK 2", "deny"},
		lease.FailureLocal: {"OVER: OVER 0, OK 2", "local"},
	} {
		b := newBench(t, specYAML, func(c *Config) {
			c.OnFailure, c.Headers, c.Metadata = how.String(), how != lease.FailureAllow, true // the header that states the failure is always there
		})
		b.store.to = []string{"gone"}
		r := b.ask(request(of("user", "gone"), of("host", "h")))
		if got := inShort(r); got != want.response {
			t.Errorf("%s: %s, want %s", want.header, got, want.response)
		}
		// The limit is known, and who is rejected has nothing; not until when.
		if st := r.Statuses[0]; (st.CurrentLimit != nil) != (st.Code == rlspb.RateLimitResponse_OVER_LIMIT) || st.DurationUntilReset != nil {
			t.Errorf("%s: the answer has too little or too much: %v", want.header, st)
		}
		if !strings.HasSuffix(added(r), "x-weir-degraded: "+want.header) || strings.Contains(added(r), "RateLimit-Limit: 5") && strings.Contains(added(r), "RateLimit-Reset") {
			t.Errorf("%s: headers %s", want.header, added(r))
		}
		d := r.DynamicMetadata.Fields
		first := d["descriptors"].GetListValue().Values[0].GetStructValue().Fields
		if !d["degraded"].GetBoolValue() || first["degraded"].GetStringValue() != want.header {
			t.Errorf("%s: metadata %v", want.header, r.DynamicMetadata)
		}
		b.has(`weir_degraded_total{how="` + want.header + `",rule="d|user"} 1`)
		b.store.to = nil
		if got := inShort(b.ask(request(of("host", "h")))); got != "OK: OK "+map[string]string{"allow": "0", "deny": "1", "local": "1"}[want.header] {
			t.Errorf("%s: the other descriptor afterwards: %s", want.header, got)
		}
	}
}

// TestQuotas: a request passes as long as one of its quotas is not over, whatever the reason: it has something left, is
// in shadow mode too and so never over or, with QUOTA_MODE, limits nothing.
func TestQuotas(t *testing.T) {
	spend := request(of("user", "a"), of("user", "a"), of("user", "a"), of("user", "a"), of("user", "a"), of("both", ""))
	for name, c := range map[string]struct {
		all  bool // QUOTA_MODE
		list steps
	}{
		"all of them": {all: true, list: steps{
			{request(of("user", "a")), "OVER: OVER 0"},
			{request(of("user", "a"), of("nobody", "")), "OK: OVER 0, OK -"},
			{request(of("user", "a"), of("user", "b"), of("plan", "gold")), "OK: OK -, OK -, OK 2"},
			{request(of("user", "a"), of("path", "x"), of("nothing", "")), "OK: OVER 0, OK -, OVER 0"},
			{request(of("user", "a"), of("nothing", "")), "OVER: OVER 0, OVER 0"},
			{request(of("nothing", ""), of("user", "a"), of("gold", ""), of("plan", "gold")), "OK: OVER 0, OK -, OK -, OK 1"},
			{request(of("nothing", ""), of("try", "x")), "OK: OVER 0, OK 0"},
			{request(of("nothing", ""), of("try", "x")), "OK: OVER 0, OK 0"},
			{request(of("nothing", ""), of("free", "")), "OVER: OVER 0, OK 4294967295"},
			{request(of("nothing", ""), of("free", ""), of("pass", "")), "OVER: OVER 0, OK 4294967295, OK 4294967295"},
		}},
		"by rule": {list: steps{
			{request(of("q1", "")), "OK: OK 0"},
			{request(of("q1", "")), "OVER: OVER 0"},
			{request(of("q1", ""), of("nobody", "")), "OVER: OVER 0, OK -"},
			{request(of("q1", ""), of("both", "")), "OK: OVER 0, OK 0"},
			{request(of("both", "")), "OK: OK 0"},
			{request(of("q1", ""), of("try", "x")), "OVER: OVER 0, OK 1"},
			{request(of("q1", ""), of("both", ""), of("nothing", "")), "OVER: OVER 0, OK 0, OVER 0"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, specYAML+"  - { key: both, shadow_mode: true, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }\n", func(cfg *Config) { cfg.Quota = c.all })
			b.ask(spend)
			b.play(t, c.list)
		})
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t, specYAML)
	for range 6 {
		b.ask(request(of("user", "a"), of("try", "x")))
	}
	b.ask(request(of("nothing", ""), of("user", "b"), of("nobody", ""), of("free", "")))
	b.ask(request(costing(0, of("user", "c")), of("plan", "gold")))
	b.ask(&rlspb.RateLimitRequest{Domain: "x", Descriptors: request(of("user", "a")).Descriptors})
	_, _ = b.ShouldRateLimit(t.Context(), request()) // of no descriptors
	b.has(
		`weir_rls_requests_total{code="ok"} 7`, `weir_rls_requests_total{code="over_limit"} 2`, `weir_rls_requests_total{code="invalid"} 1`,
		`weir_rls_decisions_total{result="within",rule="d|user"} 4`, `weir_rls_decisions_total{result="near",rule="d|user"} 1`,
		`weir_rls_decisions_total{result="over",rule="d|user"} 1`, `weir_rls_decisions_total{result="other",rule="d|user"} 1`,
		`weir_rls_decisions_total{result="replaced",rule="d|user"} 1`, `weir_rls_decisions_total{result="shadow_over",rule="d|try"} 5`,
		`weir_rls_decisions_total{result="unlimited",rule="d|free"} 1`, `weir_rls_decisions_total{result="over",rule="d|nothing"} 1`,
		`weir_rls_unmatched_total{missing="rule"} 1`, `weir_rls_unmatched_total{missing="domain"} 1`, "weir_rls_seconds_count 10")
}

// maxDetailed is how many names with clients' values there can be.
const maxDetailed = 1000

// TestMetricsOfTheConfiguration: whatever clients send, and however often the configuration changes, there are no more
// names than it has rules and room for. The others count under the rule's.
func TestMetricsOfTheConfiguration(t *testing.T) {
	b := newBench(t, "", func(c *Config) { c.HitMetrics = true })
	const detailed = `
domain: d
descriptors:
  - { key: user, detailed_metric: true, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: user, value: root, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: RULE, rate_limit: { unit: hour, requests_per_unit: 5 } }
`
	for i := range 3 {
		b.configure(strings.Replace(detailed, "RULE", "rule"+fmt.Sprint(i), 1))
		b.ask(request(of("rule"+fmt.Sprint(i), "")))
		b.ask(request(of("user", "root")))
		b.ask(request(of("user", strings.Repeat("long", 200))))
		for n := range 2 * maxDetailed {
			b.ask(request(of("user", fmt.Sprint(i*maxDetailed+n))))
		}
	}
	for _, metric := range []string{"weir_rls_decisions_total", "ratelimit_service_rate_limit_total_hits"} {
		if n := strings.Count(b.scrape(), "\n"+metric+"{"); n != maxDetailed+3 {
			t.Errorf("%d names in %s, want %d", n, metric, maxDetailed+3)
		}
	}
	b.has(`weir_rls_decisions_total{result="within",rule="d|rule2"} 1`, `weir_decisions_total{rule="d|rule2",verdict="admitted"} 1`,
		`weir_rls_decisions_total{result="within",rule="d|user"} 3003`, // those without room
		`ratelimit_service_rate_limit_total_hits{domain="d",key1="user",key2=""} 3003`,
		`weir_rls_decisions_total{result="within",rule="d|user=2000"} 1`,
		`weir_rls_decisions_total{result="within",rule="d|user=root"} 3`)
	if strings.Contains(b.scrape(), `"d|rule1"`) {
		t.Error("rule1, which is no more, is counted")
	}
}

const specYAML = `
domain: d
descriptors:
  - key: user
    rate_limit: { name: per user, unit: hour, requests_per_unit: 5 }
  - key: plan
    value: gold
    rate_limit: { unit: day, requests_per_unit: 3, name: gold, replaces: [{ name: per user }] }
  - key: host
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: path, rate_limit: { unit: second, requests_per_unit: 4 } }
  - { key: nothing, rate_limit: { unit: week, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true, name: all free } }
  - { key: pass, rate_limit: { unlimited: true, replaces: [{ name: all free }] } }
  - { key: try, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: q1, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: q2, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: wide, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 4 } }
  - { key: file, value: "*.pdf", share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
`

// steps are requests one after the other, and the answer to each.
type steps []struct {
	request *rlspb.RateLimitRequest
	want    string
}

func (b *bench) play(t *testing.T, list steps) {
	t.Helper()
	for i, step := range list {
		if got := inShort(b.ask(step.request)); got != step.want {
			t.Errorf("step %d: %s, want %s", i+1, got, step.want)
		}
	}
}

func hits(n uint32, r *rlspb.RateLimitRequest) *rlspb.RateLimitRequest {
	r.HitsAddend = n
	return r
}

// TestCurrentLimit: what a client gets to see of a limit. What is left of a second counts as one: Envoy drops it, and a client that
// gets 0 comes at once.
func TestCurrentLimit(t *testing.T) {
	b := newBench(t, specYAML)
	b.advance(limit.Second/2 + 1)
	own := limited(7, typepb.RateLimitUnit_MINUTE, of("user", "a"))
	own.Limit.UnitMultiplier = wrapperspb.UInt32(15)
	const second, minute, hour, week = rlspb.RateLimitResponse_RateLimit_SECOND, rlspb.RateLimitResponse_RateLimit_MINUTE, rlspb.RateLimitResponse_RateLimit_HOUR, rlspb.RateLimitResponse_RateLimit_WEEK
	for _, c := range []struct {
		request  *ratelimitpb.RateLimitDescriptor
		name     string
		requests uint32
		unit     rlspb.RateLimitResponse_RateLimit_Unit
		times    uint32
		reset    time.Duration // half a second after half past
	}{
		{of("host", "h", "path", "p"), "", 4, second, 0, time.Second},
		{costing(9, of("host", "h", "path", "p")), "", 4, second, 0, time.Second}, // rejected
		{costing(0, of("host", "h", "path", "new")), "", 4, second, 0, time.Second},
		{of("user", "a"), "per user", 5, hour, 0, 30 * time.Minute},
		{costing(0, of("user", "new")), "per user", 5, hour, 0, 30 * time.Minute},
		{of("nothing", ""), "", 0, week, 0, 516_600 * time.Second},
		{own, "per user", 7, minute, 15, 15 * time.Minute},
		{limited(7, typepb.RateLimitUnit_HOUR, of("free", "x")), "all free", 7, hour, 0, 30 * time.Minute},
	} {
		st := b.ask(request(c.request)).Statuses[0]
		if l := st.CurrentLimit; l.Name != c.name || l.RequestsPerUnit != c.requests || l.Unit != c.unit || l.UnitMultiplier.GetValue() != c.times {
			t.Errorf("%v: current_limit %v", c.request, l)
		}
		if d := st.DurationUntilReset.AsDuration(); d != c.reset {
			t.Errorf("%v: duration_until_reset %v, want %v", c.request, d, c.reset)
		}
	}
	b.advance(limit.Hour / 2)
	b.play(t, steps{{request(of("user", "a")), "OK: OK 4"}}) // in the next hour
}
