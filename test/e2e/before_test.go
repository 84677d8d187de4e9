package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

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

const upgradeRules = `
rules:
  - { name: exact, match: { path: /exact }, key: [], limit: 100/1d, algorithm: fixed_window, consistency: exact, timeout: 1s, on_failure: deny }
  - { name: leased, match: { path: /leased }, key: [], limit: 100/1d, algorithm: fixed_window, timeout: 1s, on_failure: deny }
`

// In the middle of an upgrade within a minor version, two replicas of a region share their Redis, and two PoPs call both. One
// replica and one PoP are of the commit before. The limits hold over all of them, and each request is decided.
func TestVersionsTogether(t *testing.T) {
	onlyLong(t)
	if envoy.Native() {
		t.Skip("builds the WASM module of the commit before")
	}
	before := commitBefore(t)
	proc.AwaitDay()
	dir, cluster := proc.LogDir(t), redistest.StartCluster(t, 3, 0)
	var addrs []string
	for _, program := range []string{region.Program(t), filepath.Join(before, "weir-regional")} {
		r := region.New(t, region.Config{Dir: dir, Name: fmt.Sprint("replica-", len(addrs)+1), Rules: upgradeRules,
			Flags:   []string{"--redis", cluster.Addrs()[0], "--redis-timeout", "1s"},
			Command: func(argv []string) []string { return append([]string{program}, argv[1:]...) }})
		r.Start()
		addrs = append(addrs, r.Addr)
	}
	modules := []string{filepath.Join(proc.Root(t), "bin", "weir.wasm"), filepath.Join(before, "weir.wasm")}
	s := start(t, stack.Config{RegionAddr: addrs[0], Bootstrap: func(b *envoy.Bootstrap) {
		b.SetModule(modules[0])
		modules = modules[1:]
		b.SetCluster("weir_region", addrs...)
	}})
	for path, least := range map[string]int{"/exact": 100, "/leased": 90} {
		got := map[int]int{}
		for range 100 {
			for _, p := range s.PoPs {
				got[p.Get(path).Status]++
			}
		}
		if n := got[http.StatusOK]; n < least || n > 100 || n+got[http.StatusTooManyRequests] != 200 {
			t.Errorf("200 requests to %s with a limit of 100: %v by status", path, got)
		}
	}
}
