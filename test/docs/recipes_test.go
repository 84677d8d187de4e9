package docs

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

const recipesPage = "docs/recipes.md"

// recipes are the rules files of docs/recipes by their names. Those with a dash are for other programs.
func recipes(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range golden.Files(t, filepath.Join(proc.Root(t), "docs/recipes/*.yaml")) {
		if name := filepath.Base(file); !strings.Contains(name, "-") {
			all[name] = string(golden.Content(t, file))
		}
	}
	return all
}

// Each recipe is valid without a warning, and passes its tests, as whoever copies it runs them.
func TestRecipes(t *testing.T) {
	const dir = "docs/recipes/"
	weir := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(proc.Root(t), "bin/weir"), args...)
		cmd.Dir = proc.Root(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("weir %v: %v\n%s", args, err, out)
		}
	}
	for name, text := range recipes(t) {
		weir("validate", "--strict", dir+name)
		if is := fails(t, name, text); is != "" {
			t.Errorf("%s: %s", name, is)
		}
	}
	weir("validate", "--strict", dir+"tokens.yaml", "--descriptors", dir+"tokens-bindings.yaml")
}

// shown is a recipe on the page: a line with its link, and an example.
var shown = regexp.MustCompile("(?m)^(\\[\\S+\\]\\(recipes/(\\S+)\\)(, with its tests)?:\n\n```yaml\n)(?s:.*?)```\n")

// The page links to all recipes, and shows most of them as they are, without the comment above and mostly without the tests;
// -update writes that.
func TestRecipesPage(t *testing.T) {
	page := read(t, recipesPage)
	golden.Same(t, filepath.Join(proc.Root(t), recipesPage), shown.ReplaceAllStringFunc(page, func(old string) string {
		m := shown.FindStringSubmatch(old)
		text := read(t, "docs/recipes/"+m[2])
		for strings.HasPrefix(text, "#") {
			_, text, _ = strings.Cut(text, "\n")
		}
		if m[3] == "" {
			text = rulesOf(text)
		}
		return m[1] + text + "```\n"
	}))
	for name := range recipes(t) {
		if !strings.Contains(page, "(recipes/"+name+")") {
			t.Errorf("%s does not link to %s", recipesPage, name)
		}
	}
}

// rulesOf is a recipe without its tests.
func rulesOf(text string) string {
	rules, _, _ := strings.Cut(text, "\ntests:\n")
	return rules
}

// unnoticed are places in recipes where no test can notice a change, and why.
var unnoticed = map[string]string{
	"name: probes":             "the name of an exempt rule is in metrics and the access log alone",
	"name: inside":             "the name of an exempt rule is in metrics and the access log alone",
	"{build}":                  "nothing takes this segment",
	"rule: client, limit: 60/": "a PoP shows what a candidate refuses from the request behind the first one on: 61 looks the same as 60",
}

// A change of one letter or digit of a recipe's rules, such as a limit, a path, a header or a name, makes a test of it fail.
func TestRecipesNoticeChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	for name, text := range recipes(t) {
		rules, excused := rulesOf(text), map[int]bool{}
		for excuse := range unnoticed {
			for _, at := range regexp.MustCompile(regexp.QuoteMeta(excuse)).FindAllStringIndex(rules, -1) {
				for i := at[0]; i < at[1]; i++ {
					excused[i] = true
				}
			}
		}
		for i := range rules {
			to, line := next(rules[i]), rules[strings.LastIndexByte(rules[:i], '\n')+1:i]
			if to != 0 && !excused[i] && !strings.Contains(line, "#") && fails(t, name, text[:i]+string(to)+text[i+1:]) == "" {
				t.Errorf("%s: no test notices %c in place of %c behind %s", name, to, rules[i], line)
			}
		}
	}
}

// next is the letter or digit behind this one; 0: it is neither.
func next(c byte) byte {
	switch {
	case c == '9':
		return '1'
	case c == 'z' || c == 'Z':
		return c - 25
	case c >= '0' && c < '9' || c >= 'a' && c < 'z' || c >= 'A' && c < 'Z':
		return c + 1
	}
	return 0
}

// fails returns what is wrong with a recipe: its mistakes, or how the first test fails that does; empty: nothing.
func fails(t *testing.T, name, text string) string {
	t.Helper()
	suite, err := ruletests.Read(name, []rulefile.File{{Name: name, Data: []byte(text)}})
	if err != nil {
		return err.Error()
	}
	for i := range suite.Tests {
		failure, err := suite.Run(t.Context(), &suite.Tests[i], nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if failure != nil {
			return strings.Join(append(failure.Expected, failure.Got...), "\n")
		}
	}
	return ""
}
