package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/api/admin/client"
	"github.com/weirlimit/weir/internal/accesslog"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// yaml judges an example of a file: of rules, of the admin API, of its callers or of others.
func (j *judge) yaml(text string) error {
	dir := j.t.TempDir()
	j.t.Setenv("XDG_CONFIG_HOME", dir)
	file := proc.WriteFile(j.t, filepath.Join(dir, "weir", "contexts.yaml"), text)
	switch {
	case strings.HasPrefix(text, "tokens:"):
		_, w := access.Watch(file, slog.New(slog.DiscardHandler), telemetry.NewRegistry("test"))
		return w.Load()
	case strings.HasPrefix(text, "current:"):
		_, err := client.Load()
		return err
	case strings.HasPrefix(text, "image:"):
		return checkValues(j.t, file)
	case strings.HasPrefix(text, "rules:"), strings.HasPrefix(text, "regions:"):
		return testRules(text)
	case strings.HasPrefix(text, "owners:"):
		files := []rulefile.File{{Name: "dir/owners.yaml", Data: []byte(text)}}
		for _, name := range []string{"platform.yaml", "team-a.yaml"} {
			files = append(files, rulefile.File{Name: "dir/" + name, Data: []byte("rules: []\n")})
		}
		_, err := rulefile.Merge("dir", files)
		return err
	case strings.HasPrefix(text, "access_log:"):
		return nil // TestAccessLogPage runs it
	case strings.HasPrefix(text, "json_format:"):
		return checkLogFields(text)
	case strings.HasPrefix(text, "bindings:"):
		_, err := binding.Parse("example", []byte(text))
		return err
	}
	return errors.New("an example of YAML of no known kind: no check is written for it")
}

// testRules runs the tests of an example. The error is how the first one that fails does, as weir rules test prints it.
func testRules(text string) error {
	suite, err := ruletests.Read("rules.yaml", []rulefile.File{{Name: "rules.yaml", Data: []byte(text)}})
	if err != nil {
		return err
	}
	for i := range suite.Tests {
		t := &suite.Tests[i]
		f, err := suite.Run(context.Background(), t, nil)
		if err != nil {
			return err
		}
		if f != nil {
			return fmt.Errorf("rules.yaml:%d: %s, step %d\n  expected: %s\n  got:      %s", f.Line, t.Name, f.Step, f.Expected[0], f.Got[0])
		}
	}
	return nil
}

// checkLogFields checks that each field of an access log makes an input known.
func checkLogFields(text string) error {
	var doc struct {
		Fields map[string]any `yaml:"json_format"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	names := 0
	for _, value := range doc.Fields {
		nested, _ := value.(map[string]any)
		names += max(1, len(nested))
	}
	line, _ := json.Marshal(doc.Fields) // what was read can be written
	var l accesslog.Line
	if err := l.Parse(line); err != nil || len(l.Known) != names {
		return fmt.Errorf("weir reads %d fields of %d: %v", len(l.Known), names, err)
	}
	return nil
}

// failing compares what a test of docs/testing.md prints, there with another limit, with what the page shows.
func (j *judge) failing(shown string) error {
	_, example, _ := strings.Cut(read(j.t, "docs/testing.md"), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if err := testRules(strings.Replace(example, "5/1m", "6/1m", 1)); err == nil || err.Error() != shown {
		return fmt.Errorf("the test fails otherwise: %w", err)
	}
	return nil
}

// checkHelm judges a command of Helm: it installs the chart of this version, with values of which [checkValues] judges each example.
func checkHelm(command string) error {
	if install := "helm upgrade --install weir weir-" + version.Version[1:] + ".tgz --namespace weir --values values.yaml --wait --timeout 15m --force-conflicts"; command != install {
		return fmt.Errorf("%s: the command that is checked is %s", command, install)
	}
	return nil
}

// checkValues judges values of the chart: Helm renders what it would install.
func checkValues(t *testing.T, file string) error {
	t.Helper()
	if testing.Short() {
		return nil // Helm takes minutes to build
	}
	cmd := exec.CommandContext(t.Context(), proc.Built(t, ".tools/helm", "helm"), "template", "weir", "deploy/chart", "--namespace", "weir", "--values", file)
	cmd.Dir = proc.Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

const (
	composeFile     = "docker-compose.yml"
	composeDocument = "docs/compose.md"
)

// composeWords are the commands and flags of `docker compose` that documents use.
var composeWords = []string{"up", "down", "stop", "start", "exec", "--build", "--wait", "-v", "--profile"}

// checkCompose judges a command of `docker compose`: what it names is a service or a profile. TestCompose of test/compose runs
// what stands after exec.
func checkCompose(t *testing.T, command string) error {
	t.Helper()
	var file struct {
		Services map[string]struct{ Profiles []string }
	}
	fatal.If(t, yaml.Unmarshal([]byte(read(t, composeFile)), &file))
	known := slices.Clone(composeWords)
	for name, s := range file.Services {
		known = append(append(known, name), s.Profiles...)
	}
	command, _, _ = strings.Cut(command, " /weir ")
	for _, word := range strings.Fields(command)[2:] {
		if !slices.Contains(known, word) {
			return fmt.Errorf("%s: %s is no service, profile, command or flag that is known here", command, word)
		}
	}
	return nil
}

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

// The page shows most recipes as they are, without the comment above and mostly without the tests;
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
}
