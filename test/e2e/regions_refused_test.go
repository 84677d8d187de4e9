package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// A rules file that an aggregator refuses last of all, because it does not fit into a message,
// does not change the regions among which it divides limits.
func TestRefusedRulesKeepTheRegions(t *testing.T) {
	t.Parallel()
	aggregator := region.New(t, region.Config{
		Dir: proc.LogDir(t), Name: "global", Program: "weir-global", Flags: []string{"--state", "off"},
		Rules: "regions: { eu: 1 }\nrules: [{ name: a, key: [], limit: 10/1m, scope: global }]\n",
	})
	aggregator.Start()
	known := func(name string) bool {
		for metric := range aggregator.Metrics() {
			if strings.Contains(metric, `{region="`+name+`"}`) {
				return true
			}
		}
		return false
	}
	proc.Eventually(t, 20*time.Second, "the aggregator knows eu", func() bool { return known("eu") })
	var large strings.Builder
	large.WriteString("regions: { us: 1 }\nrules:\n")
	for i := range 1000 {
		fmt.Fprintf(&large, "  - { name: r%d, key: [], limit: 1/1m, scope: global, match: { hosts: [", i)
		for j := range 40 {
			fmt.Fprintf(&large, "h%d.%s, ", j, strings.Repeat("x", 120))
		}
		large.WriteString("] } }\n")
	}
	aggregator.SetRules(large.String())
	proc.Eventually(t, time.Minute, "the rules are refused", func() bool { return logged(aggregator, "fit into one message") })
	if !known("eu") || known("us") {
		t.Error("the regions are those of the rules that were refused")
	}
}
