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

// alert is an alerting rule of Prometheus.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// tested is a file of unit tests for promtool.
type tested struct {
	Tests []struct {
		Name     string
		Interval string
		Alerts   []struct {
			Name     string `yaml:"alertname"`
			Expected []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

// files returns the files of a directory of alerts, by name.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(proc.Root(t), shipped, dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
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
	for _, name := range files(t, "alerts") {
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
	pages, err := filepath.Glob(filepath.Join(proc.Root(t), "docs", "runbooks", "*.md"))
	if err != nil || len(pages) != len(all) {
		t.Errorf("%d runbooks for %d alerts, %v", len(pages), len(all), err)
	}
}

// days are alerts that compare weeks: their tests have a sample every half hour, however often Prometheus scrapes.
var days = map[string]bool{"WeirViolationRateZero": true}

// Each alert fires in a test of promtool, is quiet in another, and all of them pass: with a scrape every 15 s, and
// with one every 60 s.
func TestAlertsFireAndStayQuiet(t *testing.T) {
	fires, quiet := map[string]bool{}, map[string]bool{}
	dir := filepath.Join(proc.Root(t), shipped, "alerts", "tests")
	for _, name := range files(t, "alerts/tests") {
		var file tested
		if err := yaml.Unmarshal([]byte(read(t, shipped, "alerts", "tests", name)), &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				if test.Interval != "15s" && !days[a.Name] {
					continue
				}
				if len(a.Expected) > 0 {
					fires[a.Name] = true
				} else {
					quiet[a.Name] = true
				}
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, name)
			for _, path := range []string{path, scrapedSeldom(t, path)} {
				if out, err := exec.Command(program(t, "promtool"), "test", "rules", path).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", path, err, out)
				}
			}
		})
	}
	for name := range alerts(t) {
		if !fires[name] || !quiet[name] {
			t.Errorf("%s: a test of 15 s in which it fires: %v, one in which it is quiet: %v", name, fires[name], quiet[name])
		}
	}
}

// elsewhere are metrics that the programs of this test do not have: why, and the text of
// the source that declares them.
var elsewhere = map[string]struct{ why, file, declared string }{
	"weir_panics":                     {"is there from the first panic on", "wasmfilter/filter/stats.go", `"weir.panics"`},
	"weir_vm_replaced":                {"is there from the first crash on", "wasmfilter/filter/stats.go", `"weir.vm_replaced"`},
	"weir_certificates_ok":            {"is there with TLS alone", "internal/certs/certs.go", `"weir_certificates_ok"`},
	"weir_certificate_expiry_seconds": {"is there with TLS alone", "internal/certs/expiry.go", `"weir_certificate_expiry_seconds"`},
	"weir_callers_refused_total":      {"is there with TLS alone", "internal/daemon/callers.go", `"weir_callers_refused_total"`},
	"weir_consul_ok":                  {"is there with Consul alone", "internal/consul/agent.go", `"weir_consul_ok"`},
	"weir_table_merged":               {"is there from the first merge on, which takes a page of spent counters", "wasmfilter/filter/stats.go", `"weir.table_merged"`},
}

// here reports whether all that a query selects is among what the programs of this test
// have.
func here(expr string) bool {
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		if elsewhere[m[1]].why != "" {
			return false
		}
	}
	return true
}

// What the programs of this test do not have is declared where its entry has it.
func TestElsewhere(t *testing.T) {
	for name, e := range elsewhere {
		if !strings.Contains(read(t, e.file), e.declared) {
			t.Errorf("%s %s, but %s does not have %s", name, e.why, e.file, e.declared)
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
