package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

var (
	metricDeclaration = regexp.MustCompile(`"(weir_[a-z0-9_]+)",\s*"[^"]*"((?:, "[a-z_]+")*)`)
	filterStat        = regexp.MustCompile(`"weir\.([a-z_]+)`)
	filterTag         = regexp.MustCompile(`tag_name: (\w+)`)
	envoyMetric       = regexp.MustCompile(`\benvoy_[a-z_]+`)
	watchSuffix       = regexp.MustCompile(`metric\+"(_[a-z_]+)"`)
)

// watched are the configurations that programs read again and again; internal/watch makes the same metrics of each.
var watched = []string{"rules", "ratelimit", "ratelimit_bindings", "key_secrets", "admin_tokens"}

// metrics are those that the source declares, with their labels; of Envoy's own those that dashboards and alerts select.
// test/observability asks running programs for them.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	all, tags := declaredMetrics(t), firsts(filterTag, read(t, "envoy/pop.yaml"))
	for _, name := range firsts(filterStat, read(t, "wasmfilter/filter/stats.go")) {
		all["weir_"+name] = tags
	}
	for _, suffix := range firsts(watchSuffix, read(t, "internal/watch/watch.go")) {
		for _, what := range watched {
			all["weir_"+what+suffix] = []string{"result", "version"}
		}
	}
	eachFile(t, "observability", func(_, text string) {
		for _, name := range envoyMetric.FindAllString(text, -1) {
			all[name] = []string{"envoy_cluster_name"}
		}
	})
	return all
}

func declaredMetrics(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, dir := range []string{"internal", "cmd"} {
		eachFile(t, dir, func(path, text string) {
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return
			}
			for _, m := range metricDeclaration.FindAllStringSubmatch(text, -1) {
				all[m[1]] = labelName.FindAllString(m[2], -1)
			}
		})
	}
	if len(all) < 40 {
		t.Fatalf("only %d metrics are found in the source", len(all))
	}
	return all
}

// eachFile reads all files below a directory of the repository, but those of hidden directories.
func eachFile(t *testing.T, dir string, f func(path, text string)) {
	t.Helper()
	root := filepath.Join(proc.Root(t), dir)
	fatal.If(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		f(path, string(text))
		return err
	}))
}
