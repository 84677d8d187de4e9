package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// called is what a step of a workflow runs, a target of make or nothing, or the targets of a matrix.
var called = regexp.MustCompile(`(?m)\brun:(?: make (\S+)$|.*)|\btarget: \[(.*)\]$`)

// Workflows run targets of make and nothing else, so that everybody can run what they run.
func TestWorkflowsCallMake(t *testing.T) {
	all := targets(read(t, "Makefile"))
	files, err := filepath.Glob("../../.github/workflows/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, file := range files {
		// What a matrix names is in its list.
		text := regexp.MustCompile(`run: make \$\{\{ matrix.target \}\}.*\n`).ReplaceAllString(read(t, filepath.Join("test/docs", file)), "")
		found := called.FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s calls nothing", file)
		}
		for _, m := range found {
			for target := range strings.SplitSeq(m[1]+m[2], ", ") {
				if !slices.Contains(all, target) {
					t.Errorf("%s: %q is no target of make: %s", file, target, m[0])
				}
			}
		}
	}
}
