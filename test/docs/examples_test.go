package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
