package docs

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

var (
	anyVariable = regexp.MustCompile(`\bWEIR_[A-Z_]+\b`)
	getVariable = regexp.MustCompile(`(?:Getenv\(|Variable = )"WEIR_[A-Z_]+"`)
)

// variables are those that programs do not refuse, in parts: theirs, and those of others.
func variables(t *testing.T) (parts [][]string) {
	t.Helper()
	for part := range strings.SplitSeq(read(t, "internal/settings/variables.txt"), "\n\n") {
		parts = append(parts, anyVariable.FindAllString(part, -1))
	}
	return parts
}

// The variables that programs do not refuse are those that programs, docker-compose.yml, make and tests read.
func TestVariables(t *testing.T) {
	root := proc.Root(t)
	read := [2]map[string]bool{{}, {}}
	for _, words := range []string{"weir-regional", "weir-global", "weir status"} {
		words := strings.Fields(words)
		help, err := exec.Command(filepath.Join(root, "bin", words[0]), append(words[1:], "--help")...).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range anyVariable.FindAllString(string(help), -1) {
			read[0][name] = true
		}
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		name := entry.Name()
		if name != "Makefile" && name != composeFile && !strings.HasSuffix(name, ".go") || entry.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(name, ".go") {
			text = bytes.Join(getVariable.FindAll(text, -1), nil)
		}
		for _, name := range anyVariable.FindAllString(string(text), -1) {
			read[1][name] = !read[0][name]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(read[1], func(_ string, other bool) bool { return !other })
	for i, listed := range variables(t) {
		if want := slices.Sorted(maps.Keys(read[i])); !slices.Equal(listed, want) {
			t.Errorf("internal/settings/variables.txt has in part %d\n%q, and what is read is\n%q", i, listed, want)
		}
	}
}

var makeVariable = regexp.MustCompile(`\$[($]([A-Z]+)\b`)

// ofMake are the variables that make takes.
func ofMake(makefile string) (all []string) {
	for _, m := range makeVariable.FindAllStringSubmatch(makefile, -1) {
		all = append(all, m[1])
	}
	return all
}
