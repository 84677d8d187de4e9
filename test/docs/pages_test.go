package docs

import (
	"cmp"
	"encoding/json"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// frontPage is the document that readers open first.
const frontPage = "README.md"

var (
	requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)
	problemCode = regexp.MustCompile(`(?m)^\tCode\w+ += "([a-z-]+)"$`)
)

// firsts are what a pattern has as its first group, wherever it matches.
func firsts(pattern *regexp.Regexp, text string) (all []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// Lists are complete: metrics of the region, modules that programs and tests import themselves, codes of problems,
// fields of a rule, recipes.
func TestListsAreComplete(t *testing.T) {
	_, problems, _ := strings.Cut(read(t, "docs/api.md"), "\n## Errors\n")
	problems, _, _ = strings.Cut(problems, "\n## ")
	var schema struct {
		Defs struct {
			Rule struct{ Properties map[string]any }
		} `json:"$defs"`
	}
	fatal.If(t, json.Unmarshal([]byte(read(t, "schema/rules.schema.json")), &schema))
	for _, list := range []struct {
		page, text, begins, ends string
		of                       []string
	}{
		{"docs/metrics.md", read(t, "docs/metrics.md"), "`", "`", slices.Collect(maps.Keys(declaredMetrics(t)))},
		{"RATIONALE.md", read(t, "RATIONALE.md"), "\n| `", "` |", firsts(requirement, read(t, "go.mod"))},
		{"docs/api.md", problems, "`", "`", firsts(problemCode, read(t, "api/admin/v1/problem.go"))},
		{"docs/rules.md", read(t, "docs/rules.md"), "`", "", slices.Collect(maps.Keys(schema.Defs.Rule.Properties))},
		{recipesPage, read(t, recipesPage), "(recipes/", ")", slices.Collect(maps.Keys(recipes(t)))},
	} {
		if len(list.of) < 10 {
			t.Errorf("%s: only %d items are found: %q", list.page, len(list.of), list.of)
		}
		for _, name := range list.of {
			if !strings.Contains(list.text, list.begins+name+list.ends) {
				t.Errorf("%s does not have %s", list.page, name)
			}
		}
	}
}

// Each test and each script that docs/guarantees.md names is there.
func TestGuarantees(t *testing.T) {
	page := read(t, "docs/guarantees.md")
	_, tests, _ := strings.Cut(page, "\n## Tests\n")
	named := regexp.MustCompile("`(Test\\w+)`(?: in `([a-z/0-9]+)`)?")
	for line := range strings.Lines(tests) {
		for column, cell := range strings.Split(line, " | ") {
			dir := []string{"", "", "test/sim", "test/e2e"}[min(column, 3)]
			for _, name := range slices.Backward(named.FindAllStringSubmatch(cell, -1)) {
				in := cmp.Or(name[2], dir)
				if column == 1 {
					dir = in // several tests of one package
				}
				proc.HasTest(t, in, name[1])
			}
		}
	}
	for _, script := range regexp.MustCompile(`\b\d-[a-z]+-[a-z-]+\b`).FindAllString(page, -1) {
		read(t, "test/regions/scripts/testdata/"+script+".yaml")
	}
}

// Pages about calls of QuotaService.
const slotsPage, protocolPage = "docs/slots.md", "docs/protocol.md"

var (
	callExample = regexp.MustCompile("(?m)^    (curl .*)\n\n```text\n(.*)\n```")
	wait        = regexp.MustCompile(`"(retryAfterMs|resetMs)": ?"\d+"`)
)

// A service that follows the pages gets what they show: only waits differ, and the version of the rules is left out.
func TestProtocolPages(t *testing.T) {
	for _, path := range []string{slotsPage, protocolPage} {
		page := read(t, path)
		_, rules, _ := strings.Cut(page, "```yaml\n")
		rules, _, _ = strings.Cut(rules, "```")
		r := region.New(t, region.Config{Dir: t.TempDir(), Rules: rules, Flags: []string{"--state", "off"}})
		r.Start()
		examples := callExample.FindAllStringSubmatch(page, -1)
		if len(examples) != strings.Count(page, "```text") || len(examples) == 0 {
			t.Fatalf("%s: %d examples are found", path, len(examples))
		}
		for _, e := range examples {
			out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(e[1], "127.0.0.1:8080", r.Addr)).Output()
			if got, want := answer(t, string(out)), answer(t, e[2]); err != nil || got != want {
				t.Errorf("%s: %v, printed %s\nthe page has %s", e[1], err, got, want)
			}
		}
	}
}

// answer is an answer without what differs from run to run.
func answer(t *testing.T, text string) string {
	t.Helper()
	var fields map[string]any
	fatal.If(t, json.Unmarshal([]byte(wait.ReplaceAllString(text, `"$1": "0"`)), &fields))
	delete(fields, "rulesVersion")
	delete(fields, "rulesRevision")
	return string(fatal.Get(json.Marshal(fields))(t))
}

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
	for _, file := range golden.Files(t, "../../.github/workflows/*") {
		// What a matrix names is in its list.
		text := string(golden.Content(t, file))
		text = regexp.MustCompile(`run: make \$\{\{ matrix.target \}\}.*\n`).ReplaceAllString(text, "")
		for _, m := range uses.FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s: %q is not ACTION@COMMIT # vVERSION", file, m[1])
			}
		}
		for _, m := range called.FindAllStringSubmatch(text, -1) {
			for target := range strings.SplitSeq(m[1]+m[2], ", ") {
				if !slices.Contains(all, target) {
					t.Errorf("%s: %q is no target of make: %s", file, target, m[0])
				}
			}
		}
	}
}
