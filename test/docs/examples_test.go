package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/regions"
)

func checkYAML(text string) error {
	switch {
	case strings.HasPrefix(text, "rules:"), strings.HasPrefix(text, "regions:"):
		_, err := testRules(text)
		return err
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
	return fmt.Errorf("an example of YAML that is neither rules nor owners nor bindings: no check is written for it")
}

// testRules runs the tests of an example, and returns how the first one that fails does, as weir rules test prints it.
func testRules(text string) (failed string, err error) {
	suite, err := ruletests.Read("rules.yaml", []rulefile.File{{Name: "rules.yaml", Data: []byte(text)}})
	if err != nil {
		return "", err
	}
	for i := range suite.Tests {
		t := &suite.Tests[i]
		f, err := suite.Run(context.Background(), t, nil)
		if err != nil {
			return "", err
		}
		if f != nil {
			failed = fmt.Sprintf("rules.yaml:%d: %s, step %d\n  expected: %s\n  got:      %s", f.Line, t.Name, f.Step, f.Expected[0], f.Got[0])
			return failed, errors.New(failed)
		}
	}
	return "", nil
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
	line, err := json.Marshal(doc.Fields)
	if err != nil {
		return err
	}
	var l accesslog.Line
	if err := l.Parse(line); err != nil || len(l.Known) != names {
		return fmt.Errorf("weir reads %d fields of %d: %v", len(l.Known), names, err)
	}
	return nil
}

// checkAdminYAML checks the files of the admin API and of its callers, and has checkYAML check others.
func checkAdminYAML(t *testing.T) func(text string) error {
	return func(text string) error {
		dir := t.TempDir()
		t.Setenv("XDG_CONFIG_HOME", dir)
		file := filepath.Join(dir, "weir", "contexts.yaml")
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(text, "tokens:"):
			_, w := access.Watch(file, slog.New(slog.DiscardHandler), telemetry.NewRegistry("test"))
			return w.Load()
		case strings.HasPrefix(text, "current:"):
			_, err := client.Load()
			return err
		case strings.HasPrefix(text, "image:"):
			return checkValues(t, file)
		}
		return checkYAML(text)
	}
}

// blocks are the examples that are no commands, by how they begin.
func blocks(t *testing.T) map[string]func(*Block) error {
	figure := func(*Block) error { return nil }
	return map[string]func(*Block) error{
		"upstreams = ": figure, // TestModules plans with it
		"rules.yaml:": func(b *Block) error {
			_, example, _ := strings.Cut(read(t, "docs/testing.md"), "```yaml\n")
			example, _, _ = strings.Cut(example, "```")
			if failed, err := testRules(strings.Replace(example, "5/1m", "6/1m", 1)); failed != strings.Join(b.Lines, "\n") {
				return fmt.Errorf("the test fails otherwise: %w", err)
			}
			return nil
		},
		"probes: ": figure, // TestPage of rulediff compares
		"trip: ": func(b *Block) error {
			_, err := regions.Parse("the example", strings.Join(b.Lines, "\n"))
			return err
		},
		"user weir ": func(b *Block) error {
			if acl := read(t, "internal/redis/redisstore/weir.acl"); !strings.Contains(acl, strings.TrimSpace(b.Lines[0])) {
				return fmt.Errorf("the line is not that of weir.acl")
			}
			return nil
		},
	}
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
	if err := yaml.Unmarshal([]byte(read(t, composeFile)), &file); err != nil {
		return err
	}
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
