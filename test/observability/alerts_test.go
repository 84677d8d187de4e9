package observability

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/proc"
)

type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// tested is a file of unit tests for promtool.
type tested struct {
	Tests []struct {
		Alerts []struct {
			Name     string `yaml:"alertname"`
			Expected []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

// files returns the names of the files of the repository that a pattern finds.
func files(t *testing.T, pattern ...string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(append([]string{proc.Root(t)}, pattern...)...))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// alerts returns all that are shipped, by name.
func alerts(t *testing.T) map[string]alert {
	t.Helper()
	all := map[string]alert{}
	for _, name := range files(t, shipped, "alerts", "*.yaml") {
		var file struct{ Groups []struct{ Rules []alert } }
		if err := yaml.Unmarshal([]byte(read(t, shipped, "alerts", name)), &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, group := range file.Groups {
			for _, a := range group.Rules {
				if a.Alert == "" {
					continue // it records what alerts share
				}
				if all[a.Alert].Alert != "" {
					t.Errorf("there are two alerts %s", a.Alert)
				}
				all[a.Alert] = a
			}
		}
	}
	return all
}

// runbooks is where an alert leads to.
const runbooks = "https://github.com/weirlimit/weir/blob/main/docs/runbooks/"

// Each alert states how urgent it is and leads to its runbook; the index has it; and no
// runbook is left without an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	all, index := alerts(t), read(t, "docs", "observability.md")
	for name, a := range all {
		if a.Annotations["runbook_url"] != runbooks+name+".md" || a.Annotations["summary"] == "" {
			t.Errorf("%s: annotations %q", name, a.Annotations)
		}
		severity := a.Labels["severity"]
		if severity != "page" && severity != "ticket" {
			t.Errorf("%s: severity %q", name, severity)
		}
		if row := fmt.Sprintf("\n| [%s](runbooks/%[1]s.md) | %s | ", name, severity); !strings.Contains(index, row) {
			t.Errorf("docs/observability.md has no row that begins with %q", row)
		}
		if !strings.HasPrefix(read(t, "docs", "runbooks", name+".md"), "# "+name+"\n") {
			t.Errorf("the runbook of %s has another title", name)
		}
	}
	if pages := files(t, "docs", "runbooks", "*.md"); len(pages) != len(all) {
		t.Errorf("%d runbooks for %d alerts", len(pages), len(all))
	}
}

// Each alert fires in a test of promtool, is quiet in another, and all of them pass.
func TestAlertsFireAndStayQuiet(t *testing.T) {
	t.Parallel()
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, name := range files(t, shipped, "alerts", "tests", "*.yaml") {
		var file tested
		if err := yaml.Unmarshal([]byte(read(t, shipped, "alerts", "tests", name)), &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
				quiet[a.Name] = quiet[a.Name] || len(a.Expected) == 0
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proc.Run(t, exec.Command(program(t, "promtool"), "test", "rules", filepath.Join(proc.Root(t), shipped, "alerts", "tests", name)))
		})
	}
	for name := range alerts(t) {
		if !fires[name] || !quiet[name] {
			t.Errorf("%s: a test in which it fires: %v, one in which it is quiet: %v", name, fires[name], quiet[name])
		}
	}
}

var span = regexp.MustCompile(`\[(\d+[smh])[:\]]`) // no days

// Alerts hold for a scrape every 60 s, too: a rate has five samples there, and a gauge stands for two.
func TestAlertsHoldForInfrequentScrapes(t *testing.T) {
	for name, a := range alerts(t) {
		for _, s := range span.FindAllStringSubmatch(a.Expr, -1) {
			if d, err := time.ParseDuration(s[1]); err != nil || d < 5*time.Minute {
				t.Errorf("%s: %s is less than five minutes: %v", name, s[0], err)
			}
		}
		if d, err := time.ParseDuration(a.For); !strings.ContainsAny(a.Expr, "[:") && (err != nil || d < 2*time.Minute) {
			t.Errorf("%s: for: %q is less than two minutes: %v", name, a.For, err)
		}
	}
}

// elsewhere are metrics that the programs of this test do not have, with the source that declares them.
var elsewhere = map[string]string{
	"weir_panics": "wasmfilter/filter/stats.go", "weir_vm_replaced": "wasmfilter/filter/stats.go", // from the first one on
	"weir_certificates_ok": "internal/certs/certs.go", "weir_certificate_expiry_seconds": "internal/certs/expiry.go", // with TLS
	"weir_callers_rejected_total": "internal/daemon/callers.go", // with TLS
	"weir_consul_ok":              "internal/consul/agent.go",   // with Consul
}

// here reports whether all that a query selects is among what the programs of this test have.
func here(expr string) bool {
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		if elsewhere[m[1]] != "" {
			return false
		}
	}
	return true
}

// What the programs of this test do not have is declared.
func TestElsewhere(t *testing.T) {
	for name, file := range elsewhere {
		text := read(t, file)
		if !strings.Contains(text, `"`+name+`"`) && !strings.Contains(text, `"`+strings.Replace(name, "weir_", "weir.", 1)+`"`) {
			t.Errorf("%s does not declare %s", file, name)
		}
	}
}

// selector finds what programs have, and with a colon what rules have recorded of it.
var selector = regexp.MustCompile(`\b([a-z_]+:[a-z0-9_:]+|(?:weir|envoy|process)_[a-z0-9_]+|up)(\{[^}]*\})?`)

// selectors returns what alerts select, by alert and number.
func selectors(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, a := range alerts(t) {
		found := selector.FindAllStringSubmatch(a.Expr, -1)
		if len(found) == 0 {
			t.Errorf("%s selects nothing: %s", name, a.Expr)
		}
		for i, m := range found {
			if here(m[0]) && !strings.Contains(m[1], ":") {
				all[fmt.Sprintf("%s: %d", name, i+1)] = m[0]
			}
		}
	}
	return all
}

// judgesAlerts waits until Prometheus has evaluated every alert without an error.
func (s *server) judgesAlerts(t *testing.T) {
	proc.Await(t, time.Minute, "all alerts are evaluated", func() string {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, Type, Health, LastError string }
			}
		}
		if err := s.get(&data, "rules", nil); err != nil {
			return err.Error()
		}
		seen := 0
		for _, group := range data.Groups {
			for _, r := range group.Rules {
				if r.Health != "ok" {
					return fmt.Sprintf("%s: %s %s", r.Name, r.Health, r.LastError)
				}
				if r.Type == "alerting" {
					seen++
				}
			}
		}
		if want := len(alerts(t)); seen != want {
			return fmt.Sprintf("%d of %d", seen, want)
		}
		return ""
	})
}
