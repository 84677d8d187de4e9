package observability

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// The Prometheus of the compose stack gets a configuration that it can use, with all files of alerts.
func TestComposeHasAlerts(t *testing.T) {
	_, stage, _ := strings.Cut(read(t, "Dockerfile"), "AS prometheus\n")
	stage, _, _ = strings.Cut(stage, "FROM ")
	dir, copied, loaded := t.TempDir(), 0, 0
	for line := range strings.Lines(stage) {
		words := strings.Fields(line)
		if len(words) < 4 || words[0] != "COPY" {
			continue
		}
		sources, target := words[2:len(words)-1], words[len(words)-1]
		for _, from := range sources {
			to := target
			if strings.HasSuffix(target, "/") {
				to += filepath.Base(from)
			}
			proc.WriteFile(t, filepath.Join(dir, to), read(t, from))
			copied++
		}
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
	if loaded != copied-1 {
		t.Errorf("%d files of alerts are loaded, and the image has %d files", loaded, copied)
	}
}
