// Package golden compares what a test gets with files of what it should get. A test that imports it has the flag
// -update, which writes these files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

var update = flag.Bool("update", false, "write the golden files; commit a difference only if you can explain it")

// Writes reports that the golden files are written.
func Writes() bool { return *update }

// Files returns the files of a pattern; none is a mistake in the test.
func Files(t testing.TB, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no files %s (%v)", pattern, err)
	}
	return found
}

// Content returns the bytes of a file.
func Content(t testing.TB, file string) []byte {
	t.Helper()
	return fatal.Get(os.ReadFile(file))(t)
}

// Same reports got if a file has something else; with -update it writes the file.
func Same(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		fatal.If(t, os.WriteFile(file, []byte(got), 0o644))
	}
	if want := string(Content(t, file)); got != want {
		t.Errorf("%s: got\n%swant\n%s", file, got, want)
	}
}

// Lines is [Same] for a file in which what print makes of a line stands below it. These lines begin with "$ ".
func Lines(t testing.TB, file string, print func(line string) string) {
	t.Helper()
	got := ""
	for line := range strings.Lines(string(Content(t, file))) {
		if of, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ "); found {
			got += line + print(of) + "\n"
		}
	}
	Same(t, file, got)
}
