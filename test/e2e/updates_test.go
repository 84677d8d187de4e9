package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
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
	awaits := func(stat string, n int64) {
		t.Helper()
		proc.Eventually(t, time.Minute, fmt.Sprint(stat, " is ", n), func() bool { return p.Stat(stat) == n })
	}
	const reloads, vms = "extension_config_discovery.http_filter.weir.config_reload", "wasm.envoy.wasm.runtime.v8.active"
	isUsedUp := func() bool { return p.Get("/quota", "x-user", "ann").Status == http.StatusTooManyRequests }
	proc.Eventually(t, time.Minute, "the limit is used up", isUsedUp)
	stop := background(t, s, "/", 300)
	for i := range int64(20) {
		update(map[string]any{"labels": map[string]any{"update": fmt.Sprint(i)}})
		awaits(reloads, 2+i)
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
		awaits(reloads, 22+i)
		awaits("listener_manager.lds.update_success", 2+i)
		if i == 9 {
			memory = p.Memory()
		}
	}
	awaits(vms, running)
	if more := p.Memory() - memory; more > 50<<20 { // 4 MiB were measured
		t.Errorf("ten updates took %d MiB", more>>20)
	}
}
