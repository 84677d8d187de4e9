package docs

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/proc"
)

// checkHelm judges a command of Helm: it installs the chart of this version, with values of which [checkValues] judges each example.
func checkHelm(command string) error {
	if install := "helm upgrade --install weir weir-" + version.Version[1:] + ".tgz --namespace weir --values values.yaml --wait --force-conflicts"; command != install {
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
