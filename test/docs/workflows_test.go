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

// uses is an action that a step uses, pinned one that is named by commit, with its version beside it: a tag can be moved.
var (
	uses   = regexp.MustCompile(`(?m)\buses: ([^.].*)$`)
	pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v[\d.]+$`)
)

// Workflows run targets of make and pinned actions, so that everybody can run what they run.
func TestWorkflows(t *testing.T) {
	all := targets(read(t, "Makefile"))
	files, err := filepath.Glob("../../.github/workflows/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, file := range files {
		// What a matrix names is in its list.
		text := regexp.MustCompile(`run: make \$\{\{ matrix.target \}\}.*\n`).ReplaceAllString(read(t, filepath.Join("test/docs", file)), "")
		for _, m := range uses.FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s: %q is not ACTION@COMMIT # vVERSION", file, m[1])
			}
		}
		found := called.FindAllStringSubmatch(text, -1)
		for _, m := range found {
			for target := range strings.SplitSeq(m[1]+m[2], ", ") {
				if !slices.Contains(all, target) {
					t.Errorf("%s: %q is no target of make: %s", file, target, m[0])
				}
			}
		}
	}
}
