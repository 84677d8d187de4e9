package terraform

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/proc"
)

var (
	called = regexp.MustCompile(`(?m)^\s*source\s*=\s*"([^"]*)"`)
	read   = regexp.MustCompile(`\$\{path\.(module|root|cwd)\}/([^"]*)"`)
)

// A module reads what lies inside its own directory, and calls modules of its own package; an example names where they
// are, in the version of this repository. So each of them works where it is copied or downloaded.
func TestNothingOutsideIsRead(t *testing.T) {
	root := filepath.Join(proc.Root(t), "terraform")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".tf" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, _ := filepath.Rel(root, path) // is below root
		for _, m := range called.FindAllStringSubmatch(string(text), -1) {
			local := strings.HasPrefix(m[1], ".")
			to, _ := filepath.Rel(root, filepath.Join(filepath.Dir(path), m[1])) // a path, if it is local
			switch {
			case m[1] == "hashicorp/aws":
			case strings.HasPrefix(dir, "examples") && (local || !strings.HasPrefix(m[1], "git::https://github.com/weirlimit/weir.git//terraform/modules/") ||
				!strings.HasSuffix(m[1], "?ref="+version.Version)):
				t.Errorf("%s: source %s is not a module of this repository by its address and the version %s", dir, m[1], version.Version)
			case strings.HasPrefix(dir, "modules") && !strings.HasPrefix(to, "modules"+string(filepath.Separator)):
				t.Errorf("%s: source %s is none of the modules", dir, m[1])
			}
		}
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[2])); m[1] != "module" || strings.Contains(m[2], "..") || err != nil {
				t.Errorf("%s reads %s, which is not inside its directory: %v", dir, m[0], err)
			}
		}
		if strings.Contains(called.ReplaceAllString(string(text), ""), "../") {
			t.Errorf("%s reads a path above its directory", dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
