package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// mostWalkFiles is how many files a reader opens to follow one list.
const mostWalkFiles = 10

var (
	walkStep  = regexp.MustCompile("`([a-z_/0-9]+\\.(?:go|lua))(?:: ([A-Za-z.]+))?`")
	wrapped   = regexp.MustCompile(`\n +`) // within a step of a list
	listBegin = regexp.MustCompile(`(?m)^1\. `)
)

// Each walk through the code is short, never goes back to a file that it has left, and names functions that
// are there, also where a name goes over the end of a line.
func TestWalksAreShort(t *testing.T) {
	const page = "docs/how-it-works.md"
	_, text, _ := strings.Cut(read(t, page), " walks through the code\n")
	sections := strings.Split(text, "\n### ")[1:]
	if len(sections) != 5 {
		t.Errorf("%s has %d walks, want 5", page, len(sections))
	}
	for _, section := range sections {
		title, body, _ := strings.Cut(section, "\n")
		body = wrapped.ReplaceAllString(body, " ")
		for _, step := range walkStep.FindAllStringSubmatch(body, -1) {
			if names, err := declarations(proc.Root(t), step[1]); step[2] != "" && (err != nil || !slices.Contains(names, step[2])) {
				t.Errorf("%s: %s declares no %s: %v", title, step[1], step[2], err)
			}
		}
		for _, list := range listBegin.Split(body, -1)[1:] {
			list, _, _ = strings.Cut(list, "\n\n")
			var files []string
			for _, step := range walkStep.FindAllStringSubmatch(list, -1) {
				if at := slices.Index(files, step[1]); at < 0 {
					files = append(files, step[1])
				} else if at != len(files)-1 {
					t.Errorf("%s: it goes back to %s after %s", title, step[1], files[len(files)-1])
				}
			}
			if len(files) == 0 || len(files) > mostWalkFiles {
				t.Errorf("%s: a list leads through %d files, want 1 to %d: %q", title, len(files), mostWalkFiles, files)
			}
		}
	}
}
