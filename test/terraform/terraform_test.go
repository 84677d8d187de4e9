package terraform

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// program is the path of Terraform or OpenTofu: WEIR_TERRAFORM, or that of the PATH.
func program(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("WEIR_TERRAFORM"), "terraform", "tofu"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Fatal("there is neither terraform nor tofu: run `make terraform-test`, which builds one")
	return ""
}

// tree is a copy of what a user gets: the modules, and the bootstrap that they read. What init
// makes, lock files among it, stays in the copy.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"terraform", "envoy"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(proc.Root(t), name))); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "terraform")
}

// run runs Terraform in a directory.
func run(t *testing.T, dir string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_ARGS=-no-color", "CHECKPOINT_DISABLE=1")
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// must is run without an error.
func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := run(t, dir, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// bootstrap applies the module bootstrap.
func bootstrap(t *testing.T, variables map[string]any) (texts map[string]string, environments map[string][]string) {
	t.Helper()
	return apply(t, "bootstrap", variables)
}

// apply applies a module without resources and returns its outputs: texts, and environments as
// name=value.
func apply(t *testing.T, module string, variables map[string]any) (texts map[string]string, environments map[string][]string) {
	t.Helper()
	dir := filepath.Join(tree(t), "modules", module)
	text, err := json.Marshal(variables)
	if err != nil {
		t.Fatal(err)
	}
	proc.WriteFile(t, filepath.Join(dir, "test.auto.tfvars.json"), string(text))
	must(t, dir, "init")
	must(t, dir, "apply", "-auto-approve")
	outputs := must(t, dir, "output", "-json")
	var all map[string]struct{ Value any }
	if err := json.Unmarshal([]byte(outputs[strings.Index(outputs, "{"):]), &all); err != nil {
		t.Fatalf("%v in %s", err, outputs)
	}
	texts, environments = map[string]string{}, map[string][]string{}
	for name, output := range all {
		switch value := output.Value.(type) {
		case string:
			texts[name] = value
		case map[string]any:
			for k, v := range value {
				if text, ok := v.(string); ok {
					environments[name] = append(environments[name], k+"="+text)
				}
			}
		}
	}
	return texts, environments
}
