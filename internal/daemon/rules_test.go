package daemon

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

// tooLarge are rules that parse and do not fit into a message to PoPs.
func tooLarge() string {
	var text strings.Builder
	text.WriteString("regions: { us: 1 }\nrules:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  - { name: r%d, key: [], limit: 1/1m, scope: global, match: { host: [", i)
		for j := range 40 {
			fmt.Fprintf(&text, "h%d.%s, ", j, strings.Repeat("x", 120))
		}
		text.WriteString("] } }\n")
	}
	return text.String()
}

// hasMetrics reports whether a tier has metrics of a region.
func hasMetrics(t *Tier, region string) bool {
	return strings.Contains(measure.Page(t.Metrics.Handler()), `{region="`+region+`"}`)
}

// A sliding log for which counters in memory have no room is rejected, and so is a key's own limit.
func TestLogTooLarge(t *testing.T) {
	cfg := testConfig()
	cfg.MaxKeys, cfg.MaxMemory = 1_000_000, 128<<20
	for of, fits := range map[string]bool{
		"limit: 1385/1d": true, "limit: 1386/1d": false, "limit: 6000/1d": false, "limit: 1000/1d, charge_rejected: true": false,
		"limit: 100/1d, overrides: [{ key: [192.0.2.1], limit: 6000/1d }]": false, "limit: 6000/1d, mode: off": true,
	} {
		cfg.Rules = proc.WriteFile(t, filepath.Join(t.TempDir(), "rules.yaml"), "rules: [{ name: log, key: [client_ip], algorithm: sliding_log, "+of+" }]\n")
		_, err := New(cfg, ofRegion, quiet)
		if fits && err != nil || !fits && (err == nil || !strings.Contains(err.Error(), "KiB for a key")) {
			t.Errorf("%s: %v", of, err)
		}
	}
}

// Rules that are rejected change nothing, nor which regions there are.
func TestRejectedRulesChangeNothing(t *testing.T) {
	cfg := testConfig()
	cfg.Rules = proc.WriteFile(t, filepath.Join(t.TempDir(), "rules.yaml"),
		"regions: { eu: 1 }\nrules: [{ name: a, key: [], limit: 10/1m, scope: global }]\n")
	made := runBeside(t, cfg, Program{Name: "test"}, quiet)
	proc.Eventually(t, 20*time.Second, "the region eu is among the metrics", func() bool { return hasMetrics(made, "eu") })
	version, _ := made.Service.RulesVersion()
	large := fatal.Get(rulefile.Parse("rules.yaml", []byte(tooLarge())))(t)
	if err := made.setRules(large); err == nil || !strings.Contains(err.Error(), "fit into one message") {
		t.Errorf("error %v, want that the rules do not fit into a message", err)
	}
	if after, _ := made.Service.RulesVersion(); after != version {
		t.Errorf("version %s, want that of before: %s", after, version)
	}
	if !hasMetrics(made, "eu") || hasMetrics(made, "us") {
		t.Error("the regions are not those of before")
	}
}
