package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// forFilter is the environment in which the filter is built.
var forFilter = []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}

// repository is the root of this repository. It looks at every file that the
// result depends on: `go list` reads them in another process, and without this
// `go test` would repeat an old result from its cache.
func repository(t *testing.T) string {
	t.Helper()
	root := proc.Root(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") || d.Name() == "go.mod":
			_, _ = os.Stat(path) // it counts that it was looked at
		}
		return err
	})
	fatal.If(t, err)
	return root
}

// TestRules holds this repository to the rules, as built here and as the filter.
func TestRules(t *testing.T) {
	root := repository(t)
	here, filter := fatal.Get(load(root, "./..."))(t), fatal.Get(load(root, "./wasmfilter/...", forFilter...))(t)
	complaints := append(fatal.Get(check(here))(t), fatal.Get(check(filter))(t)...)
	slices.Sort(complaints)
	for _, complaint := range slices.Compact(complaints) {
		t.Error(complaint)
	}
	for _, name := range slices.Concat(pure, parts) {
		if !slices.ContainsFunc(here, func(p *pkg) bool { return within(p.ImportPath, []string{module + "/" + name}) }) {
			t.Errorf("the package %s does not exist: correct the lists in rules.go", name)
		}
	}
}

// filterList holds what the filter is linked from, but for Go's own internals.
const filterList = "testdata/filter.txt"

// TestFilter compares what the filter is linked from with the list that is checked
// in, so that a change which makes it larger is seen in review.
func TestFilter(t *testing.T) {
	packages := fatal.Get(load(repository(t), "./wasmfilter", forFilter...))(t)
	if last := packages[len(packages)-1]; last.Name != "main" {
		t.Fatal("there is no program in wasmfilter")
	}
	var now []string
	for _, p := range packages {
		if !internal(p.ImportPath) {
			now = append(now, p.ImportPath)
		}
	}
	slices.Sort(now)
	golden.Same(t, filterList, strings.Join(now, "\n")+"\n") // write into the commit why the filter has another package
}

// internal reports whether a package is the business of Go's own developers: these
// come and go with its versions.
func internal(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".") && slices.Contains(strings.Split(importPath, "/"), "internal")
}
