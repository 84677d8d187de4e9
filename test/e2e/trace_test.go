package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
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

// The windows last a day, so that none ends within the test: see awaitDay.
const tracedRules = `
rules:
  - name: everywhere
    match: { path: { prefix: /a/ } }
    key: [path]
    limit: 100/1d
    algorithm: fixed_window
    scope: global
    timeout: 1s
  - name: here
    match: { path: { prefix: /a/ } }
    key: [path]
    limit: 50/1d
    algorithm: fixed_window
    timeout: 1s
  - name: hot
    match: { path: /hot }
    key: [path]
    limit: 10000/1d
    algorithm: fixed_window
    timeout: 1s
  - name: one
    match: { path: { prefix: /one/ } }
    key: [path]
    limit: 1/1d
    algorithm: fixed_window
    consistency: exact
    timeout: 1s
`

// client is the span of a client that traces its requests.
type client struct{ trace, span string }

func (c client) header(flags string) string { return "00-" + c.trace + "-" + c.span + "-" + flags }

func newClient(n int) client { return client{fmt.Sprintf("%032x", n), fmt.Sprintf("%016x", n)} }

// One trace leads from a client's request through Envoy, the region and Redis to the
// aggregator. What is decided from a lease is on Envoy's span. What is not sampled makes no span, and
// metrics arrive by OTLP, too.
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
	get := func(path string, c client, flags string, want int) {
		t.Helper()
		if got := s.PoPs[0].Get(path, "traceparent", c.header(flags)).Status; got != want {
			t.Errorf("GET %s: %d, want %d", path, got, want)
		}
	}
	// cold asks for keys that nobody had before until it was decided in time, which a busy
	// machine may fail to do.
	cold := func(t *testing.T, path string, n int) *trace {
		t.Helper()
		for ; ; n++ {
			get(fmt.Sprint(path, n), newClient(n), "01", http.StatusOK)
			if x := await(t, collector, newClient(n), 1); !x.degraded() {
				return await(t, collector, newClient(n), 6)
			} else if n%10 == 9 {
				t.Fatalf("none was decided in time: %v", x.spans)
			}
		}
	}

	t.Run("a cold key", func(t *testing.T) {
		x := cold(t, "/a/cold-", 10)
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

	t.Run("from a lease", func(t *testing.T) {
		const requests, first = 200, 1000 // a lease becomes as large as the use of its key
		for n := first; n < first+requests; n++ {
			get("/hot", newClient(n), "01", http.StatusOK)
		}
		cold(t, "/a/cold-", 3000) // the programs send their spans in order
		leased := 0
		for n := first; n < first+requests; n++ {
			x := await(t, collector, newClient(n), 1)
			if x.degraded() || len(x.spans) > 1 {
				continue
			}
			x.tagged(x.one("weir-pop", "", x.client.span), map[string]string{"weir.rule": "hot", "weir.outcome": "allowed", "weir.consistency": "leased", "weir.degraded": "false"})
			leased++
		}
		if t.Logf("%d of %d without a call", leased, requests); leased < requests/2 {
			t.Errorf("%d of %d requests were decided without a call", leased, requests)
		}
	})

	t.Run("a denial", func(t *testing.T) {
		const path = "/one/a"
		proc.Eventually(t, 20*time.Second, "the limit is spent", func() bool {
			return s.PoPs[0].Get(path).Status == http.StatusTooManyRequests
		})
		get(path, newClient(201), "01", http.StatusTooManyRequests)
		x := await(t, collector, newClient(201), 1)
		x.tagged(x.one("weir-pop", "", x.client.span), map[string]string{"weir.rule": "one", "weir.outcome": "denied", "weir.consistency": "exact", "weir.degraded": "false"})
	})

	t.Run("no rule", func(t *testing.T) {
		get("/none", newClient(202), "01", http.StatusOK)
		x := await(t, collector, newClient(202), 1)
		x.tagged(x.one("weir-pop", "", x.client.span), map[string]string{"weir.rule": "", "weir.outcome": ""})
	})

	t.Run("not sampled", func(t *testing.T) {
		before := len(collector.Spans(""))
		for n := 300; n < 310; n++ {
			get(fmt.Sprint("/a/cold-", n), newClient(n), "00", http.StatusOK)
			if got := s.PoPs[0].Get(fmt.Sprint("/a/colder-", n)).Status; got != http.StatusOK {
				t.Errorf("without a trace: %d", got)
			}
		}
		cold(t, "/a/cold-", 400) // the programs send their spans in order
		all := collector.Spans("")
		for _, span := range all[before:] {
			n, err := strconv.ParseUint(span.Trace, 16, 64) // an error: Envoy began the trace, of one percent
			last := err == nil && n >= 400
			if begun := err != nil && span.Service == "weir-pop"; !last && !begun {
				t.Errorf("nobody sampled %v", span)
			}
		}
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
		get("/a/degraded", c, "01", http.StatusOK)
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
