package docs

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

const recipesPage = "docs/recipes.md"

// recipes are the rules files of docs/recipes by their names. The files tokens-*.yaml are for other programs.
func recipes(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range golden.Files(t, filepath.Join(proc.Root(t), "docs/recipes/*.yaml")) {
		if name := filepath.Base(file); !strings.HasPrefix(name, "tokens-") {
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
		proc.Run(t, cmd)
	}
	for name := range recipes(t) {
		weir("rules", "validate", "--strict", dir+name)
		weir("rules", "test", dir+name)
	}
	weir("rules", "validate", "--strict", dir+"tokens.yaml", "--ratelimit-bindings", dir+"tokens-bindings.yaml")
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
			text, _, _ = strings.Cut(text, "\ntests:\n")
		}
		return m[1] + text + "```\n"
	}))
	for name := range recipes(t) {
		if !strings.Contains(page, "(recipes/"+name+")") {
			t.Errorf("%s does not link to %s", recipesPage, name)
		}
	}
}
