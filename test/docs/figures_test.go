package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// figure is a number that a document states and a program has: the expression matches
// the statement, and its group is the number.
type figure struct {
	document, statement string
	is                  any
}

// Every default and bound that the documents state is what the programs have. A figure
// that is measured is not one of these: make bench prints those.
func TestFigures(t *testing.T) {
	help := programHelp(t)
	pop := read(t, "envoy/pop.yaml")
	config, err := rulebook.ReadConfig([]byte(`{"region_cluster":"r"}`))
	if err != nil {
		t.Fatal(err)
	}
	ms := func(d limit.Micros) string { return fmt.Sprint(int64(d/limit.Millisecond), " ms") }
	for _, f := range []figure{
		{"README.md", `timeout among its rules \(default (\d+ ms)\)`, ms(rule.DefaultTimeout)},
		{"docs/rules.md", `within .timeout. \((\d+ ms)\)`, ms(rule.DefaultTimeout)},
		{"docs/how-it-works.md", `rule's .timeout. \((\d+ ms)\)`, ms(rule.DefaultTimeout)},
		{"docs/how-it-works.md", `of ([\d,]+) pages that the workers`, thousands(1 << table.MaxPagesLog2)},
		{"docs/operations.md", `state-interval. \((\d+ s)\)`, strings.Replace(flagDefault(t, help, "state-interval"), "s", " s", 1)},
		{"README.md", `listens on loopback only: PoP .(127\.0\.0\.1:\d+)`, setting(t, read(t, "envoy/run.sh"), `pop=(\S+)`)},
		{"README.md", `Envoy's admin .(:\d+)`, setting(t, read(t, "envoy/run.sh"), `admin=127\.0\.0\.1(:\d+)`)},
		{"README.md", `region\s+.(:\d+)`, strings.TrimPrefix(flagDefault(t, help, "listen"), "127.0.0.1")},
		{"README.md", `its admin and metrics .(:\d+)`, strings.TrimPrefix(flagDefault(t, help, "admin-listen"), "127.0.0.1")},
		{"docs/operations.md", `node that hangs is\s+skipped after (\d+ ms)`, fmt.Sprint(topology.DefaultTimeout.Milliseconds(), " ms")},
		{"README.md", `with Go (\d\.\d+)`, setting(t, read(t, "go.mod"), `(?m)^go (\d\.\d+)`)},
		{"internal/redis/redisstore/README.md", `redis-timeout. \((\d+ ms)\)`, fmt.Sprint(topology.DefaultTimeout.Milliseconds(), " ms")},
		{"internal/redis/redisstore/README.md", `lanes \((\d+)\)`, fmt.Sprint(redisstore.DefaultLanes)},
		{"internal/redis/redisstore/README.md", `at most (\d+) connections per node`, fmt.Sprint(redisstore.DefaultLanes + 2)},
		{"internal/envoyrls/README.md", `rls-listen. \((127\.0\.0\.1:\d+)\)`, flagDefault(t, help, "rls-listen")},
		{"envoy/README.md", `vm_id: (weir-\d+)`, setting(t, pop, `vm_id: (\S+?)[ ,}\n]`)},
		{"envoy/README.md", `connect_timeout: ([\d.]+s)`, setting(t, pop, `(?s)name: weir_region\b.*?connect_timeout: ([\d.]+s)`)},
		{"envoy/README.md", `base_interval: ([\d.]+s)`, setting(t, pop, `base_interval: ([\d.]+s)`)},
		{"envoy/README.md", `GOMEMLIMIT=(\d+MiB)`, setting(t, pop, `GOMEMLIMIT: "?(\d+MiB)`)},
		{"envoy/README.md", `rule's .timeout. \((\d+ ms) unless`, ms(rule.DefaultTimeout)},
		{"wasmfilter/edge/rulebook/config.go", `them fetched at once\. Default (\d+)`, fmt.Sprint(int64(config.RulesEvery))},
	} {
		all := regexp.MustCompile("(?s)"+f.statement).FindAllStringSubmatch(read(t, f.document), -1)
		if len(all) == 0 {
			t.Errorf("%s has no statement like %s any more: correct that here", f.document, f.statement)
		}
		for _, m := range all {
			if m[1] != fmt.Sprint(f.is) {
				t.Errorf("%s: %q, but it is %v", f.document, m[0], f.is)
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

// flagDefault is the default of a flag of weir-regional.
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
