package e2e

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// model plays an upstream that states what a request has used, x-used, where x-where says.
type model struct{}

func (model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	used, h := r.Header.Get("x-used"), w.Header()
	lasts, _ := time.ParseDuration(r.Header.Get("x-lasts"))
	time.Sleep(lasts)
	usage := `{"usage":{"total_tokens":` + used + `}}`
	switch r.Header.Get("x-where") {
	case "header":
		h["X-Tokens"] = strings.Split(used, " ")
	case "trailer":
		h.Set(http.TrailerPrefix+"x-tokens", used)
		_, _ = w.Write([]byte("message"))
		w.(http.Flusher).Flush()
	case "metadata":
		h.Set("x-meta", used)
	case "json":
		_, _ = w.Write([]byte(usage))
	case "uncounted":
		h.Set("content-type", "application/grpc")
		h.Set(http.TrailerPrefix+"grpc-status", "0")
		_, _ = w.Write(make([]byte, 60<<10))
		w.(http.Flusher).Flush()
	case "events":
		h.Set("content-type", "text/event-stream")
		for _, event := range []string{`{"usage":{"total_tokens":1}}`, `{"choices":[]}`, usage, `{"usage":null}`, "[DONE]"} {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
			w.(http.Flusher).Flush()
		}
	case "gzip":
		h.Set("content-encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write([]byte(usage))
		_ = z.Close()
	}
}

// TestActualCost: a request costs what its response states, in each place that the module sees, and otherwise what it has
// reserved.
func TestActualCost(t *testing.T) {
	for _, native := range []bool{false, true} {
		if native || !envoy.Native() {
			t.Run(map[bool]string{false: "WASM", true: "native"}[native], func(t *testing.T) {
				t.Parallel()
				settlesCosts(t, native)
			})
		}
	}
}

func settlesCosts(t *testing.T, native bool) {
	type m = map[string]any
	actual := map[string]string{
		"header": "header: x-tokens", "trailer": "trailer: x-tokens", "metadata": "metadata: { namespace: ai, key: tokens }",
		"json": "body: usage.total_tokens", "events": "body: usage.total_tokens", "gzip": "body: usage.total_tokens",
	}
	rules := "rules:\n"
	for where, source := range actual {
		rules += "  - { name: " + where + ", match: { path: /" + where + " }, key: [ { header: x-user } ], limit: 1000/1d, consistency: exact, timeout: 1s, " +
			"on_failure: deny, cost: { estimate: 50, actual: { " + source + " }, max: 400 } }\n"
	}
	rules += "  - { name: uncounted, match: { path: /uncounted }, key: [], limit: 1000/1d, scope: pop, count: { grpc_status: [16] }, " +
		"cost: { estimate: 1, actual: { body: usage.total_tokens }, max: 400 } }\n"
	rules += "  - { name: budget, match: { path: /budget }, key: [ { header: x-user } ], limit: 20000/1d, consistency: leased, timeout: 1s, on_failure: deny, " +
		"cost: { estimate: { header: x-max, max: 200 }, actual: { metadata: { namespace: ai, key: tokens } }, max: 200 } }\n"
	s := stack.Start(t, stack.Config{Workers: 1, Rules: rules, Upstream: model{}, Bootstrap: func(b *envoy.Bootstrap) {
		if native {
			b.SetNative()
		}
		b.SetHTTP2("upstream")
		b.AddFilter(m{"name": "meta", "typed_config": m{
			"@type":          "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
			"response_rules": []any{m{"header": "x-meta", "on_header_present": m{"metadata_namespace": "ai", "key": "tokens", "type": "NUMBER"}}},
		}})
	}})
	awaitRules(t, s)
	for where := range actual {
		sees := native && where != "gzip" || where == "header" || where == "metadata"
		left := 1000
		for i, used := range []string{"10", "50", "300", "9999", "-3", "0"} {
			expect(t, s.PoPs[i%2].Get("/"+where, "x-user", "ann", "x-where", where, "x-used", used), 200, nil)
			left -= map[string]int{"10": 10, "50": 50, "300": 300, "9999": 400, "-3": 50}[used]
		}
		// One more takes its estimate, and states what is left then, or, with a header, what is left when it is settled.
		want := fmt.Sprint(";r=", left-50, ";")
		if where == "header" {
			want = fmt.Sprint(";r=", left, ";")
		}
		if !sees {
			continue
		}
		proc.Eventually(t, 10*time.Second, where+" leaves "+want, func() bool {
			r := s.PoPs[0].Get("/"+where, "x-user", "ann", "x-where", where, "x-used", "0")
			return strings.Contains(r.Header.Get("RateLimit"), want)
		})
	}
	for where := range actual {
		if native && where != "gzip" || where == "header" || where == "metadata" {
			continue
		}
		r := s.PoPs[0].Get("/"+where, "x-user", "ann", "x-where", where, "x-used", "0")
		if got := r.Header.Get("RateLimit"); !strings.Contains(got, ";r=650;") {
			t.Errorf("%s: %s, want the estimates of seven requests to be charged", where, got)
		}
	}
	for used, want := range map[string]string{"10 20": map[bool]string{false: "990", true: "980"}[native], "20 10": "980"} { // WASM sees the first header
		r := s.PoPs[0].Get("/header", "x-user", used, "x-where", "header", "x-used", used)
		if got := r.Header.Get("RateLimit"); !strings.Contains(got, ";r="+want+";") {
			t.Errorf("two headers, %s: %s", used, got)
		}
	}
	keepsNoBodies(t, s)
	usesBudget(t, s)
}

// keepsNoBodies has responses settled by their trailers whose bodies were read for their cost.
func keepsNoBodies(t *testing.T, s *stack.Stack) {
	get := func() {
		expect(t, s.PoPs[0].Get("/uncounted", "x-where", "uncounted"), 200, nil)
	}
	get()
	before := s.PoPs[0].Memory()
	for range 2000 {
		get()
	}
	if grown := s.PoPs[0].Memory() - before; grown > 60<<20 {
		t.Errorf("the PoP has grown by %d MB after bodies of 120 MB", grown>>20)
	}
}

// usesBudget has 200 streams at a time at both PoPs, of up to a second, which declare twice what they use. They use the budget up, and
// never more.
func usesBudget(t *testing.T, s *stack.Stack) {
	var used, rejected atomic.Int64
	var all sync.WaitGroup
	for client := range 200 {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(client), 1))
			for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
				units := 1 + dice.Int64N(100)
				r, err := stack.Do(s.PoPs[client%2].Addr, http.MethodGet, "/budget", "", "x-user", "ann", "x-where", "metadata",
					"x-used", fmt.Sprint(units), "x-max", fmt.Sprint(2*units), "x-lasts", fmt.Sprint(dice.IntN(1000), "ms"))
				switch {
				case err != nil:
					t.Error(err)
				case r.Status == 200:
					used.Add(units)
				default:
					rejected.Add(1)
					time.Sleep(200 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	if n := used.Load(); n > 20_000 || n < 19_000 {
		t.Errorf("%d of 20000 are used, and %d requests rejected", n, rejected.Load())
	} else {
		t.Logf("%d of 20000 are used, and %d requests rejected", n, rejected.Load())
	}
}
