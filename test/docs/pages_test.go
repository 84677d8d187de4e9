package docs

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
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
