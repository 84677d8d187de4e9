package terraform

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// program is the path of Terraform or OpenTofu: WEIR_TERRAFORM, or that of the PATH.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs in make terraform-test")
	}
	for _, name := range []string{os.Getenv("WEIR_TERRAFORM"), "terraform", "tofu"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Fatal("there is neither terraform nor tofu: run `make terraform-test`, which builds one")
	return ""
}

// tree is a copy of the modules. What init makes, lock files among it, stays in the copy.
func tree(t *testing.T) string {
	t.Helper()
	return copied(t, "terraform", filepath.Join(t.TempDir(), "terraform"))
}

// copied copies a directory of the repository to another place, which it returns.
func copied(t *testing.T, name, to string) string {
	t.Helper()
	fatal.If(t, os.CopyFS(to, os.DirFS(filepath.Join(proc.Root(t), name))))
	return to
}

// Where the examples get the modules, and in which version.
var source = regexp.MustCompile(`"git::(https://[^/"]+/[^"]+?)//[^"?]+\?ref=(v[^"]+)"`)

// example is what a user has: a copy of the directory of an example and nothing beside it. Its modules come from a
// repository as the sources name it, which has the modules alone, and what edit has made of them, if it is not nil.
func example(t *testing.T, name string, edit *strings.Replacer) string {
	t.Helper()
	dir := t.TempDir()
	repository, own := filepath.Join(dir, "repository"), filepath.Join(dir, name)
	copied(t, "terraform/modules", filepath.Join(repository, "terraform", "modules"))
	copied(t, "terraform/examples/"+name, own)
	if edit != nil {
		edited(t, dir, edit)
	}
	text, err := os.ReadFile(filepath.Join(own, "main.tf"))
	named := source.FindStringSubmatch(string(text))
	if err != nil || named == nil || named[2] != version.Version {
		t.Fatalf("main.tf of %s names no module by the address of its repository and the version %s: %v", name, version.Version, err)
	}
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null") // may ask for signatures
		proc.Run(t, cmd)
	}
	git("init", "--quiet")
	git("add", "--all")
	git("commit", "--quiet", "--no-verify", "--message", "a release")
	git("tag", named[2])
	proc.WriteFile(t, filepath.Join(dir, "gitconfig"), "[url \"file://"+repository+"\"]\n\tinsteadOf = "+named[1]+"\n")
	return own
}

// edited changes each file with configuration below a directory.
func edited(t *testing.T, dir string, edit *strings.Replacer) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".tf" {
			return err
		}
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path, []byte(edit.Replace(string(text))), 0o600))
	})
	fatal.If(t, err)
}

// command is a call of Terraform, with more in its environment.
func command(t *testing.T, env []string, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_ARGS=-no-color", "CHECKPOINT_DISABLE=1",
		"GIT_CONFIG_GLOBAL="+filepath.Join(filepath.Dir(dir), "gitconfig")) // is there beside an example
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// must calls Terraform, without an error.
func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return proc.Run(t, command(t, nil, dir, args...))
}

func bootstrap(t *testing.T, variables map[string]any) (texts map[string]string, environments map[string][]string) {
	t.Helper()
	return apply(t, "bootstrap", variables)
}

// apply applies a module without resources and returns its outputs: texts, and environments as
// name=value.
func apply(t *testing.T, module string, variables map[string]any) (texts map[string]string, environments map[string][]string) {
	t.Helper()
	dir := filepath.Join(tree(t), "modules", module)
	proc.WriteFile(t, filepath.Join(dir, "test.auto.tfvars.json"), marshal(t, variables))
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

var (
	resource = regexp.MustCompile(`(?ms)^resource "(\w+)" "(\w+)" \{\n(.*?)^\}`)

	// These have no tags.
	untagged = []string{
		"aws_appautoscaling_policy", "aws_autoscaling_policy", "aws_globalaccelerator_endpoint_group", "aws_globalaccelerator_listener",
		"aws_iam_role_policy", "aws_iam_role_policy_attachment", "aws_route", "aws_route_table_association", "terraform_data",
	}
)

// What can have tags has those of the variable tags, machines and tasks among it.
func TestTags(t *testing.T) {
	root := filepath.Join(proc.Root(t), "terraform")
	for _, dir := range modules(t, root) {
		files, _ := filepath.Glob(filepath.Join(root, dir, "*.tf")) // the pattern is well-formed
		for _, file := range files {
			for _, m := range resource.FindAllStringSubmatch(string(fatal.Get(os.ReadFile(file))(t)), -1) {
				if !slices.Contains(untagged, m[1]) && !strings.Contains(m[3], "var.tags") {
					t.Errorf("%s: %s.%s has no tags = var.tags", dir, m[1], m[2])
				}
			}
		}
	}
}

var keys = regexp.MustCompile(`(?m)^  (?:program|agent)_files +?= \[(.*)\]$`)

// A task takes from its secret what weir admin bootstrap has made for its role: ECS starts no task that names another key,
// and a file without a key is missing in it.
func TestKeysOfSecrets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(proc.Root(t), "terraform/modules/region/modules/service/main.tf"))
	lists := keys.FindAllStringSubmatch(string(text), -1)
	if err != nil || len(lists) != 2 {
		t.Fatalf("the module service has not the two lists of files: %v", err)
	}
	taken := strings.Split(strings.ReplaceAll(lists[0][1]+", "+lists[1][1], `"`, ""), ", ")
	slices.Sort(taken)
	d := deployment(filepath.Join(t.TempDir(), "secrets"))
	d.bootstrap(t, "--regions", "eu,us", "--home", "eu")
	for _, role := range []string{"eu/service", "us/service", "aggregator"} {
		if made := slices.Sorted(maps.Keys(d.role(t, role))); !slices.Equal(made, taken) {
			t.Errorf("%s: weir admin bootstrap makes %q, and a task takes %q", role, made, taken)
		}
	}
}

// Every module and every example has the usual format, is valid, and passes its own tests.
// Those with resources of AWS run them with a provider that is mocked: nothing is created.
func TestModules(t *testing.T) {
	root := tree(t)
	must(t, root, "fmt", "-check", "-recursive", "-diff")
	dirs := modules(t, root)
	for _, want := range []string{"modules/bootstrap", "modules/region", "modules/aggregator", "examples/single-region", "examples/three-regions"} {
		if !slices.Contains(dirs, want) {
			t.Errorf("there is no %s among %q", want, dirs)
		}
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(root, dir)
			if name, is := strings.CutPrefix(dir, "examples/"); is {
				path = example(t, name, nil)
				proc.WriteFile(t, filepath.Join(path, "terraform.tfvars"), shown(t, path))
			}
			must(t, path, "init")
			// A module that gets its providers by other names is valid as part of the example.
			if text, err := os.ReadFile(filepath.Join(path, "versions.tf")); err != nil || !strings.Contains(string(text), "configuration_aliases") {
				must(t, path, "validate")
			}
			if tests, _ := filepath.Glob(filepath.Join(path, "tests", "*.tftest.hcl")); len(tests) > 0 {
				t.Log(must(t, path, "test"))
			}
		})
	}
}

var hcl = regexp.MustCompile("(?s)\n```hcl\n(.*?)```\n")

// shown is the terraform.tfvars that README.md of an example shows: the example is planned with it.
func shown(t *testing.T, dir string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	m := hcl.FindSubmatch(page)
	if err != nil || m == nil {
		t.Fatalf("README.md shows no terraform.tfvars: %v", err)
	}
	return string(m[1])
}

// modules are the directories of a tree that have configuration.
func modules(t *testing.T, root string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "versions.tf" {
			dir, _ := filepath.Rel(root, filepath.Dir(path)) // is below root
			dirs = append(dirs, dir)
		}
		return err
	})
	fatal.If(t, err)
	return dirs
}
