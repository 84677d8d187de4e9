package terraform

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

var (
	declared = regexp.MustCompile(`(?m)^(variable|output) "(\w+)" \{`)
	named    = regexp.MustCompile("(?m)^\\| ((?:`\\w+`(?:, )?)+) \\|")
)

// The README of each module explains every variable and output, and nothing else.
func TestTables(t *testing.T) {
	root := filepath.Join(proc.Root(t), "terraform")
	for _, dir := range modules(t, root) {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.tf"))
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]bool{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				has[m[2]] = true
			}
		}
		page, err := os.ReadFile(filepath.Join(root, dir, "README.md"))
		if err != nil {
			t.Error(err)
			continue
		}
		_, tables, _ := strings.Cut(string(page), "\n## Inputs\n")
		explained := map[string]bool{}
		for _, row := range named.FindAllStringSubmatch(tables, -1) {
			for _, name := range strings.Split(row[1], ", ") {
				explained[strings.Trim(name, "`")] = true
			}
		}
		for name := range has {
			if !explained[name] {
				t.Errorf("%s/README.md does not explain %s", dir, name)
			}
		}
		for name := range explained {
			if !has[name] {
				t.Errorf("%s/README.md explains %s, which the module does not have", dir, name)
			}
		}
	}
}
