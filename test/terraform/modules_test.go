package terraform

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

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
