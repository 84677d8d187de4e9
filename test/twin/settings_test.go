package twin

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

var (
	setting = regexp.MustCompile("envconfig:\"([A-Z_]+)\"")
	span    = regexp.MustCompile("`([A-Z_]+\\*?)`")
)

// Who comes from envoyproxy/ratelimit finds each of its settings in docs/ratelimit-service.md: what it
// is called here, or that there is none. NAME_* there stands for all that begin so.
func TestSettingsAreInTheList(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/ratelimit")
	cmd.Dir, cmd.Stderr = "../load/peers", os.Stderr
	dir := fatal.Get(cmd.Output())(t)
	source := fatal.Get(os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "src/settings/settings.go")))(t)
	readme := fatal.Get(os.ReadFile("../../docs/ratelimit-service.md"))(t)
	settings, listed := setting.FindAllStringSubmatch(string(source), -1), span.FindAllStringSubmatch(string(readme), -1)
	if len(settings) < 100 || len(listed) < 50 {
		t.Fatalf("settings: %d, on the page: %d", len(settings), len(listed))
	}
	for _, s := range settings {
		if !slices.ContainsFunc(listed, func(l []string) bool {
			begin, family := strings.CutSuffix(l[1], "*")
			return l[1] == s[1] || family && strings.HasPrefix(s[1], begin)
		}) {
			t.Errorf("docs/ratelimit-service.md does not state what becomes of %s", s[1])
		}
	}
}
