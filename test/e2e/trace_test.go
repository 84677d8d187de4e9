package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/otlp"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// The windows last a day, so that none ends within the test: see proc.AwaitDay.
const tracedRules = `
rules:
  - { name: everywhere, match: { path: { prefix: /a/ } }, key: [path], limit: 100/1d, algorithm: fixed_window, consistency: leased,
      scope: global, timeout: 1s }
  - { name: here, match: { path: { prefix: /a/ } }, key: [path], limit: 50/1d, algorithm: fixed_window, consistency: leased, timeout: 1s }
`

// client is the span of a client that traces its requests.
type client struct{ trace, span string }

func newClient(n int) client { return client{fmt.Sprintf("%032x", n), fmt.Sprintf("%016x", n)} }

// One trace leads from a client's request through Envoy, the region and Redis to the
// aggregator, and metrics arrive by OTLP, too.
func TestTrace(t *testing.T) {
	collector := otlp.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+collector.Addr)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
	dir := proc.LogDir(t)
	global := region.New(t, region.Config{
		Dir: dir, Name: "global", Rules: tracedRules, Program: "weir-global", Flags: []string{"--redis", redistest.Start(t).Addr},
	})
	global.Start()
	eu := region.New(t, region.Config{
		Dir: dir, Name: "eu", Rules: tracedRules, Flags: []string{"--redis", redistest.Start(t).Addr, "--region", "eu", "--global", global.Addr},
	})
	eu.Start()
	s := stack.Start(t, stack.Config{
		PoPs: 1, RegionAddr: eu.Addr,
		Bootstrap: func(b *envoy.Bootstrap) { b.SetTracing(collector.Addr) },
	})
	awaitRules(t, s)
	get := func(path string, c client) {
		t.Helper()
		if got := s.PoPs[0].Get(path, "traceparent", "00-"+c.trace+"-"+c.span+"-01").Status; got != http.StatusOK {
			t.Errorf("GET %s: %d, want 200", path, got)
		}
	}

	t.Run("a cold key", func(t *testing.T) {
		var x *trace
		for n := 10; x == nil || x.degraded(); n++ { // a busy machine may not decide in time
			if n > 20 {
				t.Fatalf("none was decided in time: %v", x.spans)
			}
			get(fmt.Sprint("/a/cold-", n), newClient(n))
			x = await(t, collector, newClient(n), 1)
		}
		x = await(t, collector, x.client, 6)
		pop := x.one("weir-pop", "", x.client.span)
		x.tagged(pop, map[string]string{"weir.rule": "here", "weir.outcome": "allowed", "weir.consistency": "leased", "weir.degraded": "false"})
		asked := x.one("weir-regional", "Acquire", pop.ID)
		x.tagged(asked, map[string]string{"weir.rules": "everywhere,here", "weir.wants.ok": "2", "weir.pop": "pop-1"})
		x.one("weir-regional", "EVALSHA", asked.ID)
		above := x.one("weir-regional", "Acquire", asked.ID)
		counted := x.one("weir-global", "Acquire", above.ID)
		x.tagged(counted, map[string]string{"weir.rules": "everywhere", "weir.region": "eu"})
		x.one("weir-global", "EVALSHA", counted.ID)
	})

	t.Run("no key is a label", func(t *testing.T) {
		for _, r := range []*region.Region{eu, global} {
			if _, body, err := page.Get(t.Context(), r.HTTP, "http://"+r.Admin+"/metrics"); err != nil || len(body) == 0 || strings.Contains(string(body), "cold") {
				t.Errorf("%s: %v, or a metric has a key:\n%s", r.Name, err, body)
			}
		}
		if got := s.PoPs[0].Stats("cold"); len(got) > 0 {
			t.Errorf("metrics of the PoP have keys: %v", got)
		}
	})

	t.Run("a region that is away", func(t *testing.T) {
		eu.Kill()
		c := newClient(500)
		get("/a/degraded", c)
		x := await(t, collector, c, 1)
		x.tagged(x.one("weir-pop", "", c.span), map[string]string{"weir.outcome": "allowed", "weir.degraded": "true"})
	})

	t.Run("metrics", func(t *testing.T) {
		for _, service := range []string{"weir-regional", "weir-global"} {
			if m := collector.Metric(service, "weir_acquire_seconds"); m.GetExponentialHistogram() == nil {
				t.Errorf("%s: weir_acquire_seconds is %v, want a native histogram", service, m)
			}
		}
	})
	for _, span := range collector.Spans("") {
		if text := span.String(); strings.Contains(text, "cold") && span.Service != "weir-pop" {
			t.Errorf("a key is in %s", text)
		}
	}
}

// trace is the spans of one request.
type trace struct {
	t      *testing.T
	client client
	spans  []otlp.Span
}

// await waits until so many spans of a client's trace, and its Envoy's, have arrived.
func await(t *testing.T, r *otlp.Receiver, c client, least int) *trace {
	t.Helper()
	x := &trace{t: t, client: c}
	proc.Await(t, 20*time.Second, "the spans of a request", func() string {
		x.spans = r.Spans(c.trace)
		if len(x.spans) >= least && slices.ContainsFunc(x.spans, func(s otlp.Span) bool { return s.Service == "weir-pop" }) {
			return ""
		}
		return fmt.Sprintf("%d spans, want %d: %v", len(x.spans), least, x.spans)
	})
	return x
}

// one is the span of a service, with this end of its name, whose parent is this span.
func (x *trace) one(service, name, parent string) otlp.Span {
	x.t.Helper()
	var found []otlp.Span
	for _, s := range x.spans {
		if s.Service == service && strings.HasSuffix(s.Name, name) && s.Parent == parent {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		x.t.Fatalf("%s: %d spans %q below %s: %v", service, len(found), name, parent, x.spans)
	}
	return found[0]
}

// degraded reports whether Envoy's span has it that the region did not decide.
func (x *trace) degraded() bool {
	return slices.ContainsFunc(x.spans, func(s otlp.Span) bool { return s.Tags["weir.degraded"] == "true" })
}

func (x *trace) tagged(s otlp.Span, want map[string]string) {
	x.t.Helper()
	for key, value := range want {
		if s.Tags[key] != value {
			x.t.Errorf("%s is %q, want %q: %v", key, s.Tags[key], value, s)
		}
	}
}
