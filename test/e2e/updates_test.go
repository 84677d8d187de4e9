package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Updates of the filter by ECDS lose no request and no count, and with those of its listener by LDS they
// leave no VM and little memory.
func TestUpdates(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	var boot *envoy.Bootstrap
	var update func(fields map[string]any)
	dir := t.TempDir()
	s := start(t, stack.Config{PoPs: 1, Rules: "rules:\n" + quotaRule(5), Bootstrap: func(b *envoy.Bootstrap) {
		boot, update = b, b.FilterFrom(filepath.Join(dir, "filter.json"))
		b.ListenersFrom(filepath.Join(dir, "listeners.json"))
	}})
	p := s.PoPs[0]
	const reloads, vms = "extension_config_discovery.http_filter.weir.config_reload", "wasm.envoy.wasm.runtime.v8.active"
	isUsedUp := func() bool { return p.Get("/quota", "x-user", "ann").Status == http.StatusTooManyRequests }
	proc.Eventually(t, time.Minute, "the limit is used up", isUsedUp)
	stop := background(t, s, "/", 300)
	for i := range int64(20) {
		update(map[string]any{"labels": map[string]any{"update": fmt.Sprint(i)}})
		awaitStat(t, p, reloads, 2+i)
	}
	if r := stop(); r.OK() == 0 || r.OK() < r.Sent() {
		t.Errorf("the load that went on meanwhile got %v, %v", r.Status, r.FirstError)
	}
	if !isUsedUp() {
		t.Error("a limit that was used up is not any more")
	}

	running, bundled, memory := p.Stat(vms), "rules:\n"+quotaRule(5), int64(0)
	for i := range 500 {
		bundled += fmt.Sprintf("  - { name: other-%d, match: { path: /other/%d }, key: [client_ip], limit: 1000/1m }\n", i, i)
	}
	for i := range int64(20) {
		update(map[string]any{"labels": map[string]any{"bundle": fmt.Sprint(i)}, "rules": compiled(t, bundled)})
		boot.SetTrustedHops(int(i+1) % 2)
		boot.WriteListeners()
		awaitStat(t, p, reloads, 22+i)
		awaitStat(t, p, "listener_manager.lds.update_success", 2+i)
		if i == 9 {
			memory = p.Memory()
		}
	}
	awaitStat(t, p, vms, running)
	if more := p.Memory() - memory; more > 50<<20 { // 4 MiB were measured
		t.Errorf("ten updates took %d MiB", more>>20)
	}
}

// commitBefore builds region and filter of the commit before this one. It skips the test where there is none, or where that
// is of another minor version: those do not work together before 1.0.
func commitBefore(t *testing.T) (bin string) {
	t.Helper()
	dir, root := t.TempDir(), proc.Root(t)
	minor := version.Version[:strings.LastIndex(version.Version, ".")+1]
	text, err := exec.CommandContext(t.Context(), "git", "-C", root, "show", "HEAD~1:internal/version/version.go").Output()
	if err != nil || !strings.Contains(string(text), `"`+minor) {
		t.Skipf("NOT RUN: the commit before this one is not here, or not of %s: %v", minor, err)
	}
	for _, command := range []string{
		"git -C " + root + " archive HEAD~1 | tar -x -C " + dir,
		"go build -C " + dir + " -trimpath -buildvcs=false -o bin/ ./cmd/weir-regional",
		"GOOS=wasip1 GOARCH=wasm go build -C " + dir + " -trimpath -buildvcs=false -buildmode=c-shared -o bin/weir.wasm ./wasmfilter",
	} {
		if out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return filepath.Join(dir, "bin")
}

// In the middle of an upgrade within a minor version, two replicas of a region share their Redis, and two PoPs call both. One
// replica and one PoP are of the commit before. The limits hold over all of them, and each request is decided.
func TestVersionsTogether(t *testing.T) {
	onlyLong(t)
	if envoy.Native() {
		t.Skip("builds the WASM module of the commit before")
	}
	before := commitBefore(t)
	proc.AwaitDay()
	programs := []string{region.Program(t), filepath.Join(before, "weir-regional")}
	modules := []string{filepath.Join(proc.Root(t), "bin", "weir.wasm"), filepath.Join(before, "weir.wasm")}
	s, _ := startReplicas(t, 2, region.Config{
		Rules: "rules:\n" + rule("exact", "limit: 100/1d, consistency: exact, timeout: 1s, on_failure: deny") +
			rule("leased", "limit: 100/1d, timeout: 1s, on_failure: deny"),
		Flags: []string{"--redis", redistest.StartCluster(t, 3, 0).Addrs()[0], "--redis-timeout", "1s"},
		Command: func(argv []string) []string {
			argv[0], programs = programs[0], programs[1:]
			return argv
		},
	}, 2, func(b *envoy.Bootstrap) {
		b.SetModule(modules[0])
		modules = modules[1:]
	})
	for path, least := range map[string]int{"/exact": 100, "/leased": 90} {
		got := map[int]int{}
		for range 100 {
			for _, p := range s.PoPs {
				got[p.Get(path, "x-user", "ann").Status]++
			}
		}
		if n := got[http.StatusOK]; n < least || n > 100 || n+got[http.StatusTooManyRequests] != 200 {
			t.Errorf("200 requests to %s with a limit of 100: %v by status", path, got)
		}
	}
}

const hotRestartRules = `
rules:
  - { name: exact, match: { path: /exact }, key: [], limit: 200/1d, algorithm: fixed_window, consistency: exact,
      timeout: 1s, on_failure: { action: deny, status: 429 } }
  - { name: leased, match: { path: /leased }, key: [], limit: 200/1d, algorithm: fixed_window, timeout: 1s,
      on_failure: { action: deny, status: 429 } }
  - { name: slot, match: { path: /slot }, key: [], limit: 1, algorithm: concurrency, timeout: 1s,
      on_failure: { action: deny, status: 429 } }
`

// A hot restart of Envoy (--restart-epoch) replaces the process, and with it the table
// of leases, while requests go on. What is counted: the units of exact rules, to the
// last one; those of leased ones, less what the old process had on lease, which is
// never spent twice; a stream that is open in the old process, which keeps its slot
// until it ends. No request fails.
func TestHotRestart(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	var upstream stack.InFlight
	s := start(t, stack.Config{PoPs: 1, Rules: hotRestartRules, Upstream: upstream.Track(http.HandlerFunc(streams)), HotRestart: true,
		Plugin: map[string]any{"rules": compiled(t, hotRestartRules)}}) // or before_rules decides until they are fetched
	pop := s.PoPs[0]
	ended := make(chan error)
	go func() { ended <- stream(t.Context(), pop.Addr, "/slot?for=60s") }()
	proc.Eventually(t, 10*time.Second, "the stream is at the upstream", func() bool { return upstream.Now() == 1 })

	var ok [2]atomic.Int64
	var rejected, done atomic.Bool
	var clients sync.WaitGroup
	for i, path := range []string{"/exact", "/leased"} {
		clients.Go(func() {
			for !done.Load() || ok[0].Load() < 200 && !rejected.Load() {
				switch status := statusOf(t, pop.Addr, path); status {
				case http.StatusOK:
					ok[i].Add(1)
				case http.StatusTooManyRequests:
					rejected.Store(rejected.Load() || i == 0)
				default:
					t.Errorf("%s: status %d", path, status)
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	old := pop.HotRestart()
	for !old.Exited() {
		if status := statusOf(t, pop.Addr, "/slot"); status != 429 && !old.Exited() {
			t.Errorf("status %d beside a stream in the old process that holds the only slot, want 429", status)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("the stream ended with the old process: %v", <-ended)
	done.Store(true)
	clients.Wait()
	exact, leased := ok[0].Load(), ok[1].Load()
	t.Logf("admitted %d of exact and %d of leased, limits of 200", exact, leased)
	if exact != 200 || leased > 200 || leased < 100 {
		t.Errorf("limits of 200 admitted %d of exact and %d of leased, want 200, and 100 to 200", exact, leased)
	}
	proc.Eventually(t, 5*time.Second, "the slot of the old process lapses", func() bool { return statusOf(t, pop.Addr, "/slot") == 200 })
}
