package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Each test and each script that docs/guarantees.md names is there.
func TestGuarantees(t *testing.T) {
	root := proc.Root(t)
	page := fatal.Get(os.ReadFile(filepath.Join(root, "docs/guarantees.md")))(t)
	for _, name := range regexp.MustCompile("`(Test\\w+)` in `([a-z/0-9]+)`").FindAllStringSubmatch(string(page), -1) {
		proc.HasTest(t, name[2], name[1])
	}
	for _, script := range regexp.MustCompile(`\b\d-[a-z]+-[a-z-]+\b`).FindAllString(string(page), -1) {
		if _, err := os.Stat(filepath.Join(root, "test/regions/scripts/testdata", script+".yaml")); err != nil {
			t.Error(err)
		}
	}
}
