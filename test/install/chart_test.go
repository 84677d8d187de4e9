package install

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// installs are the values with which the chart is rendered, by the name of their golden file: default are
// its own, with what it has none for.
var installs = map[string][]string{
	"default":     {"--values", "testdata/chart/default.values.yaml"},
	"all":         {"--values", "testdata/chart/all.values.yaml"},
	"redis-tls":   {"--values", "testdata/chart/redis-tls.values.yaml"},
	"aggregators": {"--values", "testdata/chart/aggregators.values.yaml"},
}

// helm runs a command of Helm on the chart, and returns what it prints.
func helm(t *testing.T, command string, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs in make deploy-test: it needs Helm")
	}
	argv := append(strings.Fields(command), filepath.Join(proc.Root(t), "deploy", "chart"), "--namespace", "weir")
	cmd := exec.CommandContext(t.Context(), proc.Built(t, ".tools/helm", "helm"), append(argv, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	printed, err := cmd.Output()
	if err != nil {
		return "", errors.New(said.String() + string(printed))
	}
	return string(printed), nil
}

var renderings sync.Map // of arguments

// render is what the chart makes of arguments of `helm template`.
func render(t *testing.T, args ...string) string {
	t.Helper()
	key := strings.Join(args, "\x00")
	if known, ok := renderings.Load(key); ok {
		return known.(string)
	}
	out, err := helm(t, "template weir", args...)
	if err != nil {
		t.Fatalf("helm template %q: %v", args, err)
	}
	renderings.Store(key, out)
	return out
}

// set are the arguments that set values beside those of default: NAME=VALUE.
func set(values ...string) []string {
	args := slices.Clone(installs["default"])
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

func rendered(t *testing.T, args ...string) []node {
	t.Helper()
	return decoded(t, "the chart", render(t, args...))
}

// What the chart renders is what it rendered: a change shows in the golden files, which
// `go test ./test/install -run TestChartIsGolden -update` writes. They have the paths of files in place of these, of which
// the install with everything has all: a new one of observability/ needs a link.
func TestChartIsGolden(t *testing.T) {
	replaced, all := []string{"\n\n---\n", "\n---\n"}, render(t, installs["all"]...)
	for pattern, indent := range map[string]string{ // of what the chart takes over
		"observability/alerts/*.yaml": "  ", "observability/dashboards/*.json": "    ", "deploy/chart/files/valkey*": "    ",
	} {
		for _, file := range golden.Files(t, "../../"+pattern) {
			lines := strings.TrimSpace(string(golden.Content(t, file)))
			text := "\n" + indent + strings.ReplaceAll(lines, "\n", "\n"+indent)
			replaced = append(replaced, text, "\n    FILE "+strings.TrimPrefix(file, "../../"))
			if !strings.Contains(all, text) {
				t.Errorf("the chart lacks %s, or changes it", file)
			}
		}
	}
	for name, args := range installs {
		got := strings.TrimPrefix(strings.NewReplacer(replaced...).Replace(render(t, args...)), "---\n")
		golden.Same(t, filepath.Join("testdata", "chart", name+".golden.yaml"), got)
	}
}

func TestChartLints(t *testing.T) {
	for name, args := range installs {
		if out, err := helm(t, "lint --strict", args...); err != nil || !strings.Contains(out, "0 chart(s) failed") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
