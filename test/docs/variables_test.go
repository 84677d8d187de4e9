package docs

import (
	"maps"
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

// variables are those that programs do not reject, in parts: theirs, and those of others.
func variables(t *testing.T) (parts [][]string) {
	t.Helper()
	for part := range strings.SplitSeq(read(t, "internal/settings/variables.txt"), "\n\n") {
		parts = append(parts, anyVariable.FindAllString(part, -1))
	}
	return parts
}

// The variables that programs do not reject are those that programs, docker-compose.yml, make and tests read.
func TestVariables(t *testing.T) {
	read := [2]map[string]bool{{}, {}}
	for _, words := range []string{"weir-regional", "weir-global", "weir status"} {
		words := strings.Fields(words)
		help := proc.Run(t, exec.Command(proc.Built(t, "bin/"+words[0], "build"), append(words[1:], "--help")...))
		for _, name := range anyVariable.FindAllString(help, -1) {
			read[0][name] = true
		}
	}
	eachFile(t, ".", func(path, text string) {
		switch name := filepath.Base(path); {
		case strings.HasSuffix(name, ".go"):
			text = strings.Join(getVariable.FindAllString(text, -1), "")
		case name != "Makefile" && name != composeFile:
			return
		}
		for _, name := range anyVariable.FindAllString(text, -1) {
			read[1][name] = !read[0][name]
		}
	})
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
