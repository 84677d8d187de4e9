package e2e

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

var panicRules = "rules:\n" +
	rule("exact-deny", "limit: 1000/1d, consistency: exact, timeout: 1s, on_failure: { action: deny, status: 429 }") +
	rule("exact-allow", "limit: 1000/1d, consistency: exact, timeout: 1s, on_failure: allow") +
	rule("pop-local", "limit: 1000000/1d, scope: pop, on_failure: local") +
	rule("pop-allow", "limit: 1000000/1d, scope: pop, on_failure: allow") +
	"  - { name: slot, match: { path: /slot }, key: [], limit: 1, algorithm: concurrency, scope: pop }\n"

// A build for tests of each module panics in each hook. Envoy lives, the log names the hook, weir_panics counts, and the next
// request is decided. A request without a verdict follows on_failure, or before_rules if no rule was matched. No slot is lost.
func TestPanics(t *testing.T) {
	t.Parallel()
	var boots []*envoy.Bootstrap
	s := start(t, stack.Config{Workers: 1, Rules: panicRules, Bootstrap: bothModules(func(b *envoy.Bootstrap, _ bool) {
		b.SetVariant(envoy.Panicking)
		b.SetPlugin(map[string]any{"before_rules": "allow", "rules_every_ms": 3_600_000}) // or the answer with the rules may panic
		b.ListenersFrom(filepath.Join(t.TempDir(), "listeners.json"))
		boots = append(boots, b)
	})})
	for i, p := range s.PoPs {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			t.Run("what is released has no such header", func(t *testing.T) { releasedDoesNotPanic(t, isNative(i)) })
			panicsInEachHook(t, p)
			t.Run("on_configure", func(t *testing.T) { panicsInConfiguration(t, p, boots[i]) })
			t.Run("memory", func(t *testing.T) { panicsKeepNoMemory(t, p) })
		})
	}
}

func panicsInEachHook(t *testing.T, p *stack.PoP) {
	for _, c := range []struct {
		hook, path string
		status     int
	}{
		{"on_request_headers", "/exact-deny", 200},
		{"decided", "/pop-local", 503},
		{"decided", "/pop-allow", 200},
		{"decided", "/slot", 200},
		{"on_scheduled", "/exact-deny", 429},
		{"on_scheduled", "/exact-allow", 200},
		{"on_http_call_response", "/exact-deny", 429},
		{"on_http_call_response", "/exact-allow", 200},
		{"on_response_headers", "/slot", 200},
		{"on_delete", "/slot", 200},
		{"on_tick", "/other", 200},
	} {
		t.Run(c.hook+" "+c.path, func(t *testing.T) {
			hook, panicked := c.hook, panics(p)
			if hook == "decided" {
				hook = "on_request_headers" // where it is called from
			}
			if r := p.Get(c.path, "x-user", "ann", "x-weir-test-panic", c.hook); r.Status != c.status {
				t.Errorf("status %d, want %d: %s", r.Status, c.status, r.Body)
			}
			proc.Eventually(t, 10*time.Second, "the panic is counted", func() bool { return panics(p) == panicked+1 })
			logs(t, p.LogPath(), "panic in "+hook+": x-weir-test-panic")
			for range 3 { // one after the other, for which a slot is enough
				var r stack.Response
				proc.Eventually(t, 10*time.Second, "the region answers in time", func() bool { // it does, unless on_failure rejects
					r = p.Get(c.path, "x-user", "bob")
					return r.Header.Get("X-Weir-Rule") == "" || r.Header.Get("X-Envoy-Ratelimited") != ""
				})
				if limited := c.path != "/other"; r.Status != http.StatusOK || limited != (r.Header.Get("RateLimit") != "") {
					t.Errorf("the next request: status %d, headers %v", r.Status, r.Header)
				}
			}
		})
	}
}

func panics(p *stack.PoP) int64 { return p.Stat("wasmcustom.weir.panics") }

// panicsInConfiguration: the last good configuration goes on, until another good one comes, with another before_rules.
func panicsInConfiguration(t *testing.T, p *stack.PoP, boot *envoy.Bootstrap) {
	boot.SetPlugin(map[string]any{"ratelimit_headers": false, "labels": map[string]any{"x-weir-test-panic": "on_configure"}})
	boot.WriteListeners()
	logs(t, p.LogPath(), "panic in on_configure: x-weir-test-panic")
	awaitStat(t, p, configErrors, 1)
	time.Sleep(1500 * time.Millisecond) // the old listener drains for a second
	if r := p.Get("/exact-deny", "x-user", "ann"); r.Status != http.StatusOK || r.Header.Get("RateLimit") == "" {
		t.Errorf("status %d, headers %v", r.Status, r.Header)
	}
	boot.SetPlugin(map[string]any{"ratelimit_headers": true, "labels": map[string]any{}, "before_rules": "deny"})
	boot.WriteListeners()
	awaitStat(t, p, configErrors, 0)
	proc.Eventually(t, 10*time.Second, "a request without a matched rule is rejected", func() bool {
		return p.Get("/exact-allow", "x-user", "ann", "x-weir-test-panic", "on_request_headers").Status == http.StatusServiceUnavailable
	})
}

// panicsKeepNoMemory: what a request had is free after its panic, whichever hook it was.
func panicsKeepNoMemory(t *testing.T, p *stack.PoP) {
	round := func() int64 {
		for _, hook := range []string{"on_request_headers", "decided", "on_delete"} {
			try(t, drive.Load{Addrs: []string{p.Addr}, Request: drive.Get("/pop-allow", "x-user", "ann", "x-weir-test-panic", hook), Count: 2000})
		}
		time.Sleep(300 * time.Millisecond)
		return p.Memory()
	}
	first := round()
	last := max(round(), round())
	if t.Logf("%d and then %d kB", first>>10, last>>10); last-first > 8<<20 { // 12,000 panics; a stream alone would take 2 MB
		t.Errorf("12000 panics took %d kB", (last-first)>>10)
	}
}

// releasedDoesNotPanic: what is released cannot be told to panic.
func releasedDoesNotPanic(t *testing.T, native bool) {
	const name = "x-weir-test-panic"
	module := map[bool]string{false: "weir.wasm", true: "weir.so"}[native]
	for file, has := range map[string]bool{"bin/" + module: false, "bin/panics/" + module: true} {
		text := fatal.Get(os.ReadFile(proc.Built(t, file, "build")))(t)
		if bytes.Contains(text, []byte(name)) != has {
			t.Errorf("%s has %s: %v", file, name, !has)
		}
	}
}

// What only the native module does. That it decides as the WASM module does is shown by all other tests, with WEIR_FILTER=native.
func TestNative(t *testing.T) {
	t.Parallel()
	log, library := filepath.Join(t.TempDir(), "access.log"), fatal.Get(os.ReadFile(proc.Built(t, "bin/weir.so", "build")))(t)
	s := start(t, stack.Config{PoPs: 1, Rules: "rules: [{ name: login, key: [{ header: x-user }], limit: 1/1d, algorithm: fixed_window, consistency: exact, timeout: 1s }]\n",
		Bootstrap: func(b *envoy.Bootstrap) {
			b.SetNative()
			b.SetAccessLog(log)
			b.LogMore(map[string]any{"metadata": "%DYNAMIC_METADATA(weir)%"})
		}})
	t.Run("dynamic metadata", func(t *testing.T) {
		for _, user := range []string{"ann", "b\xffb"} {
			proc.Eventually(t, 10*time.Second, user+" is rejected", func() bool { return s.PoPs[0].Get("/", "x-user", user).Status == 429 })
		}
		logs(t, log, `"metadata":\{[^}]*"rule":"login"`, `"metadata":\{[^}]*"key":"ann"`, `"metadata":\{[^}]*"remaining":"0"`, `"metadata":\{[^}]*"key":"b[^"]*b"`)
	})
	t.Run("a second copy in one Envoy", func(t *testing.T) {
		b, copied := envoy.ReadBootstrap(t), filepath.Join(t.TempDir(), "copy")
		fatal.If(t, os.WriteFile(copied+".so", library, 0o755))
		b.SetNative()
		b.SetModule(filepath.Join(proc.Root(t), "bin", "weir.wasm"))
		b.AddPlugin(proc.FreeAddr(t), "other", nil)
		b.SetModule(copied + ".wasm")
		file := proc.WriteFile(t, filepath.Join(t.TempDir(), "bootstrap.json"), b.JSON())
		out, err := exec.CommandContext(t.Context(), envoy.Program(t), "--mode", "validate", "-c", file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another copy of the module") {
			t.Errorf("Envoy ends with %v:\n%s", err, out)
		}
	})
}

// An Envoy that has another Go module, too, lives and limits under load. A plugin configuration with a mistake does not keep
// it from starting.
func TestTwoGoModules(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	library := filepath.Join(t.TempDir(), "other.so")
	proc.Run(t, exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-o", library, "./testdata/gomodule"))
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: "rules:\n" + quotaRule(5), Bootstrap: func(b *envoy.Bootstrap) {
		b.SetNative()
		b.SetPlugin(map[string]any{"typo": 1})
		b.AddFilter(map[string]any{"name": "other", "typed_config": map[string]any{
			"@type":                 "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
			"dynamic_module_config": map[string]any{"module": map[string]any{"local": map[string]any{"filename": library}}, "do_not_close": true},
			"filter_name":           "other",
		}})
	}})
	p := s.PoPs[0]
	awaitStat(t, p, configErrors, 1)
	tally := offer(t, drive.Load{Addrs: s.Addrs(), Conns: 16, Until: time.Now().Add(10 * time.Second), Request: drive.GetEach("/quota", "x-user", "u")})
	if p.Exited() || tally.Failed > 0 {
		t.Errorf("%d requests without an answer; Envoy has ended: %v", tally.Failed, p.Exited())
	}
}

var crashRules = rule("panic-quota", "limit: 100/1d, timeout: 1s, on_failure: { action: deny, status: 429 }") + `
  - { name: slots, match: { path: /stream }, timeout: 1s, key: [], limit: 4, algorithm: concurrency,
      lease: { ttl: 2s }, on_failure: { action: deny, status: 429 } }
`

// A build for tests kills its VM on a request. A new VM stands within a second, and the table, which belongs
// to Envoy, has lost nothing: what was spent stays spent, with the region away, so
// that the filter could not learn it again. No slot is lost either.
func vmCrashes(t *testing.T, s *stack.Stack, upstream *stack.InFlight) {
	p := s.PoPs[0]
	spends(t, 100, func() int64 {
		return offer(t, loadOf(s, "/panic-quota", "ann", 500)).OK()
	})
	p.Link.Cut()
	crash(t, p)

	t.Run("heals within a second", func(t *testing.T) {
		// The machine may be busy: what is looked at is that requests are served
		// again and that it took one reload per VM, not many.
		proc.Eventually(t, 5*time.Second, "requests are served", func() bool {
			tally := try(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get("/other"), Count: 50})
			return tally.OK() == 50
		})
	})
	t.Run("what was spent stays spent", func(t *testing.T) {
		tally := offer(t, loadOf(s, "/panic-quota", "ann", 500))
		if tally.OK() > 0 {
			t.Errorf("admitted %d of a spent key", tally.OK())
		}
	})
	p.Link.Heal()
	t.Run("leaks no slot", func(t *testing.T) {
		leave := fillSlots(t, s, upstream, 4)
		crash(t, p) // the VM of these streams is gone
		leave()
		fillSlots(t, s, upstream, 4)()
	})
	t.Run("counts a replaced VM", func(t *testing.T) { // also where the crashes so far came too early
		proc.Eventually(t, 30*time.Second, "a replaced VM is counted", func() bool {
			if p.Stat("wasmcustom.weir.vm_replaced") > 0 {
				return true
			}
			crash(t, p)
			return false
		})
	})
}

// crash kills the VM of each worker while requests are under way.
func crash(t *testing.T, p *stack.PoP) {
	t.Helper()
	before := p.Stats("wasm.weir.vm_reload_success")
	proc.Eventually(t, 30*time.Second, "both workers' VMs have crashed and are back", func() bool {
		try(t, drive.Load{Addrs: []string{p.Addr}, Request: drive.Get("/other", "x-weir-test-panic", "stack"), Count: 8})
		time.Sleep(200 * time.Millisecond)
		for name, n := range p.Stats("wasm.weir.vm_reload_success") {
			if n >= before[name]+2 {
				return true
			}
		}
		return false
	})
}
