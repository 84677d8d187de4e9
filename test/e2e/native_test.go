package e2e

import (
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

// What only the native module does. That it decides as the WASM module does is shown by all other tests, with WEIR_FILTER=native.
func TestNative(t *testing.T) {
	t.Parallel()
	log, library := filepath.Join(t.TempDir(), "access.log"), fatal.Get(os.ReadFile(proc.Built(t, "bin/weir.so", "build")))(t)
	s := start(t, stack.Config{PoPs: 1, Rules: "rules:\n  - { name: login, key: [ { header: x-user } ], limit: 1/1d, algorithm: fixed_window, consistency: exact }\n",
		Bootstrap: func(b *envoy.Bootstrap) {
			b.SetNative()
			b.SetAccessLog(log)
			b.LogMore(map[string]any{"metadata": "%DYNAMIC_METADATA(weir)%"})
		}})
	t.Run("dynamic metadata", func(t *testing.T) {
		for _, user := range []string{"ann", "ann", "b\xffb", "b\xffb"} {
			s.PoPs[0].Get("/", "x-user", user)
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
	wrong(t, p, 1)
	tally := offer(t, drive.Load{Addrs: s.Addrs(), Conns: 16, Until: time.Now().Add(10 * time.Second), Request: drive.GetEach("/quota", "x-user", "u")})
	if p.Exited() || tally.Failed > 0 {
		t.Errorf("%d requests without an answer; Envoy has ended: %v", tally.Failed, p.Exited())
	}
}
