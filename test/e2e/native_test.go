package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// What only the native module does. That it decides as the WASM module does is shown by all other tests, with WEIR_FILTER=native.
func TestNative(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: "rules:\n  - { name: login, key: [ { header: x-user } ], limit: 1/1d, algorithm: fixed_window, consistency: exact }\n",
		Bootstrap: func(b *envoy.Bootstrap) {
			b.SetNative()
			b.SetAccessLog(log)
			b.LogMore(map[string]any{"metadata": "%DYNAMIC_METADATA(weir)%"})
		}})
	awaitRules(t, s)
	t.Run("dynamic metadata", func(t *testing.T) {
		for _, user := range []string{"ann", "ann", "b\xffb", "b\xffb"} {
			s.PoPs[0].Get("/", "x-user", user)
		}
		logs(t, log, `"metadata":\{[^}]*"rule":"login"`, `"metadata":\{[^}]*"key":"ann"`, `"metadata":\{[^}]*"remaining":"0"`, `"metadata":\{[^}]*"key":"b[^"]*b"`)
	})
	t.Run("a second copy in one Envoy", func(t *testing.T) {
		rejected(t, "another copy of the module", func(b *envoy.Bootstrap) {
			copied := filepath.Join(t.TempDir(), "copy.wasm") // its library is copy.so
			text := fatal.Get(os.ReadFile(proc.Built(t, "bin/weir.so", "build")))(t)
			fatal.If(t, os.WriteFile(strings.TrimSuffix(copied, ".wasm")+".so", text, 0o755))
			b.AddPlugin(proc.FreeAddr(t), "other", nil)
			b.SetModule(copied)
		})
	})
	t.Run("a library that is not there", func(t *testing.T) {
		rejected(t, "/nowhere/weir.so", func(b *envoy.Bootstrap) { b.SetModule("/nowhere/weir.wasm") })
	})
	t.Run("a file that is no library", func(t *testing.T) {
		rejected(t, "not-weir.so", func(b *envoy.Bootstrap) {
			path := filepath.Join(t.TempDir(), "not-weir.wasm")
			proc.WriteFile(t, strings.TrimSuffix(path, ".wasm")+".so", "\x7fELF")
			b.SetModule(path)
		})
	})
}

// rejected has Envoy validate a bootstrap that it must not accept, for a reason.
func rejected(t *testing.T, reason string, edit func(*envoy.Bootstrap)) {
	t.Helper()
	b := envoy.ReadBootstrap(t)
	b.SetNative()
	b.SetModule(filepath.Join(proc.Root(t), "bin", "weir.wasm"))
	edit(b)
	file := proc.WriteFile(t, filepath.Join(t.TempDir(), "bootstrap.json"), b.JSON())
	out, err := exec.CommandContext(t.Context(), envoy.Program(t), "--mode", "validate", "-c", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), reason) {
		t.Errorf("Envoy ends with %v, want %q:\n%s", err, reason, out)
	}
}
