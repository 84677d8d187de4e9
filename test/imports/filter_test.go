package imports

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/filter.txt anew")

// filterList holds what the filter is linked from, but for Go's own internals.
const filterList = "testdata/filter.txt"

// TestFilter compares what the filter is linked from with the list that is checked
// in, so that a change which makes it larger is seen in review.
func TestFilter(t *testing.T) {
	packages := mustLoad(t, repository(t), "./wasmfilter", forFilter...)
	if last := packages[len(packages)-1]; last.Name != "main" {
		t.Fatal("there is no program in wasmfilter")
	}
	for _, complaint := range checkFilter(packages) {
		t.Error(complaint)
	}
	var now []string
	for _, p := range packages {
		if !internal(p.ImportPath) {
			now = append(now, p.ImportPath)
		}
	}
	slices.Sort(now)
	if *update {
		if err := os.WriteFile(filterList, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := os.ReadFile(filterList)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Fields(string(listed))
	for _, path := range now {
		if !slices.Contains(before, path) {
			t.Errorf("the filter now contains %s, through %s", path, strings.Join(importers(packages, path), ", "))
		}
	}
	for _, path := range before {
		if !slices.Contains(now, path) {
			t.Errorf("the filter no longer contains %s", path)
		}
	}
	if t.Failed() {
		t.Log("if that is wanted: go test ./test/imports -update, and write the reason into the commit")
	}
}

// internal reports whether a package is the business of Go's own developers: these
// come and go with its versions.
func internal(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".") && slices.Contains(strings.Split(importPath, "/"), "internal")
}
