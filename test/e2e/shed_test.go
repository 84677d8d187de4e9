package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const shedRules = `
  - name: overload
    match: { path: { prefix: /v1/ } }
    key: [{ header: x-user }]
    shed: { capacity: 20, profile: fast, classes: [{ class: critical, match: { path: { prefix: /v1/pay } } }] }
`

// loaded plays an upstream that says how much it has to do: /v1/hold and /v1/pay/hold last until the client leaves.
type loaded struct {
	report atomic.Value
	held   stack.InFlight
	log    string // the access log of its PoP
}

func (u *loaded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/hold") {
		<-r.Context().Done()
		return
	}
	if report, _ := u.report.Load().(string); report != "" {
		w.Header().Set("endpoint-load-metrics", report)
	}
}

// Two workers together hold no more than the capacity at an upstream: normal requests up to 80 % of it, critical ones all. What is
// beyond gets a 503 that says why, and nobody else pays for it. An upstream that states its load has the same rejected by a ratio.
func sheds(t *testing.T, pop *stack.PoP, upstream *loaded) {
	gauge := func(name string) int64 { return pop.Stat("wasmcustom.weir." + name + ".rule.overload") }
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	fill := func(path string, most int) {
		t.Helper()
		proc.Eventually(t, 30*time.Second, "the room of "+path+" is used", func() bool {
			if upstream.held.Now() < most {
				go func() { _ = stream(ctx, pop.Addr, path) }()
				time.Sleep(30 * time.Millisecond)
			}
			return upstream.held.Now() == most
		})
		for range 10 {
			if r := pop.Get(strings.TrimSuffix(path, "hold")); r.Status != http.StatusServiceUnavailable {
				t.Errorf("%s beyond the room of its class gets status %d", path, r.Status)
			}
		}
	}
	fill("/v1/hold", 16)
	rejected := pop.Get("/v1/a")
	rejected.Header.Del("Connection")
	expect(t, rejected, 503, map[string]string{"X-Envoy-Overloaded": "^true$", "X-Weir-Rule": "^overload$",
		"Retry-After": "^[123]$"})
	names, want := slices.Sorted(maps.Keys(rejected.Header)), []string{"Content-Length", "Content-Type", "Date", "Retry-After",
		"Server", "X-Envoy-Overloaded", "X-Envoy-Ratelimited", "X-Weir-Rule"}
	if !slices.Equal(names, want) || !strings.Contains(rejected.Body, "#temporary-reduced-capacity") {
		t.Errorf("a rejection has the headers %q, want %q; the body is %s", names, want, rejected.Body)
	}
	fill("/v1/pay/hold", 20)
	if n := upstream.held.Most(); n > 20 {
		t.Errorf("%d at the upstream, of a capacity of 20", n)
	}
	proc.Eventually(t, 10*time.Second, "the gauge says that all is in use", func() bool { return gauge("shed_utilization_permille") == 1000 })
	leave()
	proc.Eventually(t, 30*time.Second, "nothing is in use, and a request is admitted", func() bool {
		return gauge("shed_utilization_permille") == 0 && pop.Get("/v1/a").Status == http.StatusOK
	})

	// By what the upstream states.
	upstream.report.Store(`JSON {"application_utilization": 1.0, "cpu_utilization": 0.2}`)
	sheds, users := 0, 0
	get := func(path string) int { // of many clients: what one gets is no sign
		users++
		return pop.Get(path, "x-user", fmt.Sprint("user-", users)).Status
	}
	proc.Eventually(t, time.Minute, "the ratio rejects most", func() bool {
		for range 20 {
			if get("/v1/a") == http.StatusServiceUnavailable {
				sheds++
			}
			if status := get("/v1/pay/a"); status != http.StatusOK {
				t.Fatalf("a critical request gets status %d", status)
			}
		}
		return gauge("shed_ratio_permille") > 500
	})
	if sheds == 0 {
		t.Error("no request is rejected by the ratio")
	}
	upstream.report.Store("TEXT cpu_utilization=0.1")
	proc.Eventually(t, time.Minute, "neither worker rejects by the ratio", func() bool {
		passed := 0
		for range 20 {
			if get("/v1/a") == http.StatusOK {
				passed++
			}
		}
		return passed == 20 && gauge("shed_ratio_permille") == 0
	})
	const logged = `".*"details":"weir-shed:overload".*"rule":"overload".*"status":503`
	logs(t, upstream.log, `"class":"normal`+logged, `"class":"critical`+logged)
}
