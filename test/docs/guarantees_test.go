package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Each test and each script that docs/guarantees.md names is there.
func TestGuarantees(t *testing.T) {
	root := proc.Root(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/guarantees.md"))
	fatal.If(t, err)
	for _, name := range regexp.MustCompile("`(Test\\w+)` in `([a-z/0-9]+)`").FindAllStringSubmatch(string(page), -1) {
		files, _ := filepath.Glob(filepath.Join(root, name[2], "*_test.go")) // the pattern is well-formed
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			found = found || err == nil && strings.Contains(string(text), "\nfunc "+name[1]+"(t ")
		}
		if !found {
			t.Errorf("%s has no %s", name[2], name[1])
		}
	}
	for _, script := range regexp.MustCompile(`\b\d-[a-z]+-[a-z-]+\b`).FindAllString(string(page), -1) {
		if _, err := os.Stat(filepath.Join(root, "test/regions/scripts/testdata", script+".txt")); err != nil {
			t.Error(err)
		}
	}
}
