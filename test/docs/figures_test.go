package docs

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Each default and bound that a document names has the value that the programs have.
func TestFigures(t *testing.T) {
	help, pop, start := proc.Run(t, exec.Command(region.Program(t), "--help")), read(t, "envoy/pop.yaml"), read(t, "envoy/run.sh")
	config := fatal.Get(rulebook.ReadConfig([]byte(`{"region_cluster":"r"}`)))(t)
	timeout, redisTimeout := fmt.Sprint(int64(rule.DefaultTimeout/limit.Millisecond), " ms"), fmt.Sprint(topology.DefaultTimeout.Milliseconds(), " ms")
	port := func(flag string) string { return strings.TrimPrefix(flagDefault(t, help, flag), "127.0.0.1") }
	for document, figures := range map[string][]string{
		frontPage: {timeout, setting(t, start, `pop=(\S+)`), setting(t, start, `admin=127\.0\.0\.1(:\d+)`), port("listen"), port("admin-listen"),
			"Go " + setting(t, read(t, "go.mod"), `(?m)^go (\d\.\d+)`)},
		"docs/rules.md":        {timeout},
		"docs/how-it-works.md": {timeout, thousands(1<<table.MaxPagesLog2) + " pages"},
		"docs/operations.md":   {redisTimeout, strings.Replace(flagDefault(t, help, "state-interval"), "s", " s", 1)},
		redisDocument: {redisTimeout, fmt.Sprintf("(%d)", redisstore.DefaultLanes),
			fmt.Sprint(redisstore.DefaultLanes+2, " connections")},
		"docs/ratelimit-service.md": {flagDefault(t, help, "rls-listen")},
		"docs/envoy.md": {timeout, setting(t, pop, `vm_id: (\S+?)[ ,}\n]`), "connect_timeout: " + setting(t, pop, `(?s)name: weir_region\b.*?connect_timeout: ([\d.]+s)`),
			"base_interval: " + setting(t, pop, `base_interval: ([\d.]+s)`), setting(t, pop, `GOMEMLIMIT: "?(\d+MiB)`)},
		"wasmfilter/edge/rulebook/config.go": {fmt.Sprint("Default ", int64(config.RulesEvery))},
	} {
		for _, figure := range figures {
			if !regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(figure) + `($|\W)`).MatchString(read(t, document)) {
				t.Errorf("%s does not name %s, which is the value in the programs", document, figure)
			}
		}
	}
}

// measured is a figure with a decimal point, in a page that quotes what another page measured.
var measured = regexp.MustCompile(`\b\d+\.\d+\b`)

// Pages that quote measurements have their figures from the pages that made them.
func TestQuotedFigures(t *testing.T) {
	source := read(t, "docs/benchmarks.md") + read(t, "docs/regions.md") + read(t, "docs/simulator.md")
	figures := measured.FindAllString(source, -1)
	for _, page := range []string{frontPage, "docs/choosing.md"} {
		for number, line := range strings.Split(read(t, page), "\n") {
			if !strings.HasPrefix(line, "| ") {
				continue
			}
			for _, figure := range measured.FindAllString(line, -1) {
				if !slices.Contains(figures, figure) {
					t.Errorf("%s:%d: nothing measured %s", page, number+1, figure)
				}
			}
		}
	}
}

// setting is what a text has in the place of a group.
func setting(t *testing.T, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("nothing matches %s", pattern)
	}
	return m[1]
}

func flagDefault(t *testing.T, help, name string) string {
	t.Helper()
	return strings.Trim(setting(t, help, `--`+name+`="?([^" \n]+)`), `"`)
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
