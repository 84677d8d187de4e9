package imports

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/golden"
)

// filterList holds what the filter is linked from, but for Go's own internals.
const filterList = "testdata/filter.txt"

// TestFilter compares what the filter is linked from with the list that is checked
// in, so that a change which makes it larger is seen in review.
func TestFilter(t *testing.T) {
	packages := mustLoad(t, repository(t), "./wasmfilter", forFilter...)
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
