package docs

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// frontPage is the document that readers open first.
const frontPage = "README.md"

// Every page is found: another one links to it.
func TestEveryPageIsLinked(t *testing.T) {
	all, linked := documents(t), map[string]bool{}
	for _, d := range all {
		for _, l := range d.Links {
			target, _, _ := strings.Cut(l.Text, "#")
			linked[path.Join(path.Dir(d.Path), target)] = true
		}
	}
	for _, d := range all {
		if d.Path != frontPage && !strings.HasPrefix(d.Path, "terraform/") && !linked[d.Path] {
			t.Errorf("no page links to %s", d.Path)
		}
	}
}

// Every metric that the region declares is explained.
func TestMetricsAreExplained(t *testing.T) {
	page := Parse("docs/metrics.md", read(t, "docs/metrics.md"))
	for name := range declaredMetrics(t) {
		if !slices.ContainsFunc(page.Spans, func(s Span) bool { return s.Text == name }) {
			t.Errorf("%s does not explain %s", page.Path, name)
		}
	}
}

// Every field of a rule is on the page of rules; docs/reference.md, which is generated, has its default.
func TestFieldsAreExplained(t *testing.T) {
	var schema struct {
		Defs struct {
			Rule struct {
				Properties map[string]any
			}
		} `json:"$defs"`
	}
	fatal.If(t, json.Unmarshal([]byte(read(t, "schema/rules.schema.json")), &schema))
	fields, page := schema.Defs.Rule.Properties, read(t, "docs/rules.md")
	if len(fields) < 10 {
		t.Fatalf("the schema has only %d fields of a rule", len(fields))
	}
	for name := range fields {
		if !strings.Contains(page, "`"+name) {
			t.Errorf("docs/rules.md does not explain %s", name)
		}
	}
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)

// requirements are the modules that the programs and tests import themselves.
func requirements(t *testing.T) (all []string) {
	t.Helper()
	for _, m := range requirement.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		all = append(all, m[1])
	}
	return all
}

// Every dependency has its reason.
func TestDependenciesAreExplained(t *testing.T) {
	page := read(t, "RATIONALE.md")
	for _, module := range requirements(t) {
		if !strings.Contains(page, "\n| `"+module+"` |") {
			t.Errorf("RATIONALE.md does not explain why %s is needed", module)
		}
	}
}

// declarations are the functions of a Go file, methods as Type.Name.
func declarations(root, path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name := f.Name.Name
			if f.Recv != nil {
				of, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), "[")
				name = of + "." + name
			}
			all = append(all, name)
		}
	}
	return all, nil
}

// Each test and each script that docs/guarantees.md names is there.
func TestGuarantees(t *testing.T) {
	root := proc.Root(t)
	page := fatal.Get(os.ReadFile(filepath.Join(root, "docs/guarantees.md")))(t)
	_, tests, _ := strings.Cut(string(page), "\n## Tests\n")
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
	for _, script := range regexp.MustCompile(`\b\d-[a-z]+-[a-z-]+\b`).FindAllString(string(page), -1) {
		if _, err := os.Stat(filepath.Join(root, "test/regions/scripts/testdata", script+".yaml")); err != nil {
			t.Error(err)
		}
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
