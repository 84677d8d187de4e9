package rulediff

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

var update = flag.Bool("update", false, "write testdata/changes.txt; commit a difference only if you can explain it")

// now is when versions are compared.
var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func parse(t *testing.T, text string) *rule.Set {
	t.Helper()
	set, err := rulefile.Parse("rules", []byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return set
}

// TestChanges compares the pairs of testdata/changes.txt.
func TestChanges(t *testing.T) {
	const file = "testdata/changes.txt"
	want := fatal.Get(os.ReadFile(file))(t)
	got := ""
	for _, pair := range strings.Split(string(want), "=== ")[1:] {
		name, rest, _ := strings.Cut(pair, "\n")
		before, rest, _ := strings.Cut(rest, "--- new\n")
		after, _, _ := strings.Cut(rest, "--- changes\n")
		d := Compare(t.Context(), parse(t, before), parse(t, after), now)
		got += "=== " + name + "\n" + before + "--- new\n" + after + "--- changes\n" + d.String()
	}
	if *update {
		fatal.If(t, os.WriteFile(file, []byte(got), 0o644))
	} else if got != string(want) {
		t.Errorf("not as in %s; see the difference with -update. Got\n%s", file, got)
	}
}

// TestPage: the example of docs/cli.md prints what stands there.
func TestPage(t *testing.T) {
	page := fatal.Get(os.ReadFile("../../../docs/cli.md"))(t)
	_, section, _ := strings.Cut(string(page), "\n## Comparing rules\n")
	blocks := regexp.MustCompile("(?s)```(?:yaml)?\n(.*?)```").FindAllStringSubmatch(section, 3)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks, want two files and their comparison", len(blocks))
	}
	if got := Compare(t.Context(), parse(t, blocks[0][1]), parse(t, blocks[1][1]), now).String(); got != blocks[2][1] {
		t.Errorf("got\n%s\nwant\n%s", got, blocks[2][1])
	}
}

// An expression with an empty class matches nothing, and no example is made of it.
func TestEmptyClass(t *testing.T) {
	rules := `rules: [{ name: a, match: { path: { regex: '\P{Any}' } }, key: [client_ip], limit: 5/1m }]`
	if d := Compare(t.Context(), parse(t, rules), parse(t, strings.Replace(rules, "Any}", "Any}x", 1)), now); d.Changed+d.Undecided == 0 {
		t.Errorf("%+v", d)
	}
}

// TestManyRules: the fewer requests a rule has, the nearer they are to its match.
func TestManyRules(t *testing.T) {
	const many = 200
	var texts [2]strings.Builder
	for i := range texts {
		texts[i].WriteString("rules:\n")
		for j := range many {
			fmt.Fprintf(&texts[i], "- { name: r%d, match: { path: { regex: '/%d/[a-%c]+' }, header: { x: { prefix: v%d } }, not: [{ query: { q: { present: true } } }] }, key: [client_ip], limit: 5/1m }\n", j, j, 'f'+rune(i), i)
		}
	}
	d := Compare(t.Context(), parse(t, texts[0].String()), parse(t, texts[1].String()), now)
	if d.Changed != many || d.Added+d.Removed != 0 {
		t.Errorf("%d changed", d.Changed)
	}
}
