package docs

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// metrics are those of running programs, after some requests.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	rules := read(t, "envoy/rules.yaml")
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: rules})
	redis := redistest.Start(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yaml": rules, "config/a.yaml": "domain: a\ndescriptors:\n  - key: k\n    rate_limit: { unit: hour, requests_per_unit: 5 }\n",
		"descriptors.yaml": "bindings: []\n", "key-secrets": "a 00112233445566778899aabbccddeeff\n", "tokens": "tokens: []\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	admin, rlsAddr := proc.FreeAddr(t), proc.FreeAddr(t)
	proc.Start(t, proc.LogDir(t), "region-with-redis", region.Program(t), "--rules", filepath.Join(dir, "rules.yaml"), "--listen", proc.FreeAddr(t),
		"--admin-listen", admin, "--rls-listen", rlsAddr, "--ratelimit-config", filepath.Join(dir, "config"),
		"--descriptors", filepath.Join(dir, "descriptors.yaml"), "--key-secrets", filepath.Join(dir, "key-secrets"), "--admin-tokens", filepath.Join(dir, "tokens"), "--redis", redis.Addr, "--drain-wait", "0s")
	proc.Eventually(t, 20*time.Second, "the region is ready", func() bool { return strings.HasPrefix(get(admin, "/readyz"), "200") })
	p := s.PoPs[0]
	seen := map[string][]string{}
	const decisions = "weir_decisions"
	proc.Eventually(t, 20*time.Second, "the filter has reported what it decided", func() bool {
		p.Get("/")
		note(seen, get(p.Admin, "/stats/prometheus"))
		return len(seen[decisions]) > 0
	})
	note(seen, get(s.Region.Admin, "/metrics"))
	note(seen, get(admin, "/metrics"))
	// What the filter counts is there from the first one on.
	for _, m := range filterStat.FindAllStringSubmatch(read(t, "wasmfilter/filter/stats.go"), -1) {
		name := "weir_" + m[1]
		seen[name] = append(seen[name], strings.Trim(m[2], "."))
	}
	seen[decisions] = append(seen[decisions], "reason", "override") // without the region; of an override with a name
	seen["weir_waits"] = append(seen["weir_waits"], "override")
	for name, labels := range declaredMetrics(t) {
		seen[name] = append(seen[name], labels...)
	}
	return seen
}

var metricDeclaration = regexp.MustCompile(`"(weir_[a-z0-9_]+)",\s*"[^"]*"((?:, "[a-z_]+")*)`)

// declaredMetrics are those in the source of the region, with their labels. Some have no
// samples before something goes wrong.
func declaredMetrics(t *testing.T) map[string][]string {
	t.Helper()
	root, all := proc.Root(t), map[string][]string{}
	for _, dir := range []string{"internal", "regional"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range metricDeclaration.FindAllStringSubmatch(string(text), -1) {
				all[m[1]] = labelName.FindAllString(m[2], -1)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d metrics are found in the source", len(all))
	}
	return all
}

var filterStat = regexp.MustCompile(`"weir\.([a-z_]+)(\.[a-z_]+\.)?"`)

var sample = regexp.MustCompile(`(?m)^([a-z_0-9]+)(?:\{(.*)\})? `)

// note adds the samples of a page of metrics, under the names that they are declared by.
func note(seen map[string][]string, page string) {
	for _, m := range sample.FindAllStringSubmatch(page, -1) {
		name := m[1]
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if short, ok := strings.CutSuffix(name, suffix); ok {
				labels := seen[short]
				for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(m[2], -1) {
					if !slices.Contains(labels, l[1]) {
						labels = append(labels, l[1])
					}
				}
				seen[short] = labels
			}
		}
	}
}

// get is the status and the body of a page; empty if there is none.
func get(addr, path string) string {
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d\n%s", resp.StatusCode, body)
}
