package daemon

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
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
	w := httptest.NewRecorder()
	t.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return strings.Contains(w.Body.String(), `{region="`+region+`"}`)
}

// Rules that are refused change nothing, nor which regions there are.
func TestRefusedRulesChangeNothing(t *testing.T) {
	cfg := testConfig()
	cfg.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(cfg.Rules, []byte("regions: { eu: 1 }\nrules: [{ name: a, key: [], limit: 10/1m, scope: global }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := runBeside(t, cfg, Program{Name: "test"}, slog.New(slog.DiscardHandler))
	proc.Eventually(t, 20*time.Second, "the region eu is among the metrics", func() bool { return hasMetrics(made, "eu") })
	version, _ := made.Service.RulesVersion()
	large, err := rulefile.Parse("rules.yaml", []byte(tooLarge()))
	if err != nil {
		t.Fatal(err)
	}
	if err := made.rules.set(large); err == nil || !strings.Contains(err.Error(), "fit into one message") {
		t.Errorf("error %v, want that the rules do not fit into a message", err)
	}
	if after, _ := made.Service.RulesVersion(); after != version {
		t.Errorf("version %s, want that of before: %s", after, version)
	}
	if !hasMetrics(made, "eu") || hasMetrics(made, "us") {
		t.Error("the regions are not those of before")
	}
}
