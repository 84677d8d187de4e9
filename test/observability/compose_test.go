package observability

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/proc"
)

// The Prometheus of the compose stack gets a configuration that it can use, with all files of alerts.
func TestComposeHasAlerts(t *testing.T) {
	var file struct {
		Services struct {
			Prometheus struct {
				Configs []struct{ Source, Target string }
			}
		}
		Configs map[string]struct{ File string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	dir, loaded := t.TempDir(), 0
	for _, c := range file.Services.Prometheus.Configs {
		proc.WriteFile(t, filepath.Join(dir, c.Target), read(t, file.Configs[c.Source].File))
	}
	out, err := exec.Command(program(t, "promtool"), "check", "config", filepath.Join(dir, "/etc/prometheus/prometheus.yml")).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range files(t, "alerts") {
		if strings.Contains(string(out), filepath.Join("alerts", name)) {
			loaded++
		} else {
			t.Errorf("alerts/%s is not loaded:\n%s", name, out)
		}
	}
	if loaded != len(file.Services.Prometheus.Configs)-1 {
		t.Errorf("%d files of alerts are loaded, and %d files are mounted", loaded, len(file.Services.Prometheus.Configs))
	}
}
