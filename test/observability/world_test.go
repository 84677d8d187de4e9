package observability

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// rules make every kind of decision happen under the load of [world.load].
const rules = `
revision: 7
regions: { eu: 1 }
rules:
  - { name: client, key: [client_ip], limit: 1000000/1m, on_failure: allow }
  - { name: user, key: [{ header: x-user-id }], limit: 100/1m, on_failure: local }
  - { name: login, match: { path: /login }, key: [client_ip], limit: 5/1m, consistency: exact, on_failure: deny }
  - { name: here, scope: pop, key: [{ header: x-user-id }], limit: 1000/1d, algorithm: fixed_window } # fills the table
  - { name: trial, mode: shadow, key: [client_ip], limit: 5/1m }
  - { name: overload, match: { path: /busy }, shed: { capacity: 1, classes: [{ class: critical, match: { method: PUT } }] } }
  - { name: all, scope: global, key: [client_ip], limit: 1000000/1m }
`

// world is one PoP, one region with a Redis Cluster, the aggregator, and a Prometheus that
// scrapes them.
type world struct {
	*server
	redis      *redistest.Cluster
	aggregator *region.Region
	region     *region.Region
	pop        *stack.PoP
}

func start(t *testing.T) *world {
	t.Helper()
	dir := proc.LogDir(t)
	w := &world{redis: redistest.StartCluster(t, 2, 0, redistest.Args("--maxmemory", "64mb"))}
	w.aggregator = region.New(t, region.Config{Dir: dir, Name: "global", Rules: rules, Program: "weir-global",
		Flags: []string{"--state", filepath.Join(dir, "global.state")}})
	w.aggregator.Start()
	limits := filepath.Join(dir, "ratelimit")
	proc.WriteFile(t, filepath.Join(limits, "config", "web.yaml"), "domain: web\ndescriptors:\n  - key: who\n    rate_limit: { unit: minute, requests_per_unit: 5 }\n")
	w.region = region.New(t, region.Config{Dir: dir, Name: "regional", Rules: rules, Flags: []string{
		"--region", "eu", "--aggregator", w.aggregator.Addr, "--redis", strings.Join(w.redis.Addrs(), ","),
		"--ratelimit-config", filepath.Join(limits, "config"), "--rls-listen", proc.FreeAddr(t)}})
	w.region.Start()
	upstream := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			time.Sleep(20 * time.Millisecond)
		}
	})
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, RegionAddr: w.region.Addr, Plugin: map[string]any{"table_pages": 16}, Upstream: upstream})
	w.pop = s.PoPs[0]
	w.server = startPrometheus(t, dir, map[string]string{
		"pop":      fmt.Sprintf("[{ targets: [%q], labels: { region: eu } }]", w.pop.Admin),
		"regional": fmt.Sprintf("[{ targets: [%q], labels: { region: eu } }]", w.region.Admin),
		"global":   fmt.Sprintf("[{ targets: [%q] }]", w.aggregator.Admin),
	})
	return w
}

// load sends requests until the test ends: to the PoP by many users, and to Envoy's rate
// limit service. What becomes of them does not matter here.
func (w *world) load(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	var all sync.WaitGroup
	t.Cleanup(func() { close(done); all.Wait() })
	every := func(pause time.Duration, send func(i int)) {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(pause):
				}
				send(i)
			}
		})
	}
	for range 3 { // more than the shed rule has room for
		every(20*time.Millisecond, func(i int) {
			_, _ = stack.Do(w.pop.Addr, []string{http.MethodGet, http.MethodPut}[i%2], "/busy", "")
		})
	}
	every(2*time.Millisecond, func(i int) {
		path := "/"
		if i%8 == 0 {
			path = "/login"
		}
		_, _ = stack.Do(w.pop.Addr, http.MethodGet, path, "", "x-user-id", fmt.Sprint("user", i%2000))
		if i%4 == 0 {
			_, _ = stack.Do(w.region.Addr, http.MethodPost, "/json", `{"domain":"web","descriptors":[{"entries":[{"key":"who","value":"ann"}]}]}`)
		}
	})
}

// trouble stops the store, the region and the aggregator in turn, each for as long as
// Prometheus takes to see it.
func (w *world) trouble(t *testing.T) {
	t.Helper()
	for _, n := range w.redis.Nodes {
		n.Kill()
	}
	w.await(t, `weir_redis_breakers_open == 2`)
	w.await(t, `sum(weir_degraded_total) > 0`)
	for _, n := range w.redis.Nodes {
		n.Restart()
	}
	w.await(t, `weir_redis_breakers_open == 0`)
	w.region.Kill()
	w.await(t, `up{job="weir-regional"} == 0`)
	w.await(t, `sum(weir_decisions{reason="on_failure"}) > 0`)
	w.region.Start()
	w.await(t, `sum(weir_units_overdrawn_total) > 0`)
	w.aggregator.Kill()
	w.await(t, `weir_aggregator_up == 0`)
	w.aggregator.Start()
	w.await(t, `weir_aggregator_up == 1`)
}

// await waits until a query has a series, from now on.
func (w *world) await(t *testing.T, expr string) {
	t.Helper()
	since := time.Now()
	proc.Await(t, time.Minute, expr, func() string {
		if has, err := w.hasNumbers(expr, since); err != nil || !has {
			return fmt.Sprint("no number, ", err)
		}
		return ""
	})
}
