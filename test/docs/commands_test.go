package docs

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/proc"
)

// checkHelm judges a command of Helm: it installs the chart of this version, with values of which [checkValues] judges each example.
func checkHelm(command string) error {
	if install := "helm upgrade --install weir weir-" + version.Version[1:] + ".tgz --namespace weir --values values.yaml --wait --timeout 15m --force-conflicts"; command != install {
		return fmt.Errorf("%s: the command that is checked is %s", command, install)
	}
	return nil
}

// checkValues judges values of the chart: Helm renders what it would install.
func checkValues(t *testing.T, file string) error {
	t.Helper()
	if testing.Short() {
		return nil // Helm takes minutes to build
	}
	cmd := exec.CommandContext(t.Context(), proc.Built(t, ".tools/helm", "helm"), "template", "weir", "deploy/chart", "--namespace", "weir", "--values", file)
	cmd.Dir = proc.Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

const (
	composeFile     = "docker-compose.yml"
	composeDocument = "docs/compose.md"
)

// composeWords are the commands and flags of `docker compose` that documents use.
var composeWords = []string{"up", "down", "stop", "start", "exec", "--build", "--wait", "-v", "--profile"}

// checkCompose judges a command of `docker compose`: what it names is a service or a profile. TestCompose of test/compose runs
// what stands after exec.
func checkCompose(t *testing.T, command string) error {
	t.Helper()
	var file struct {
		Services map[string]struct{ Profiles []string }
	}
	if err := yaml.Unmarshal([]byte(read(t, composeFile)), &file); err != nil {
		return err
	}
	known := slices.Clone(composeWords)
	for name, s := range file.Services {
		known = append(append(known, name), s.Profiles...)
	}
	command, _, _ = strings.Cut(command, " /weir ")
	for _, word := range strings.Fields(command)[2:] {
		if !slices.Contains(known, word) {
			return fmt.Errorf("%s: %s is no service, profile, command or flag that is known here", command, word)
		}
	}
	return nil
}
