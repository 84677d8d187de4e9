package language_test

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/language"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// TestGenerated: the schema and the reference in the repository are those of language.yaml. make generate runs it with
// -update.
func TestGenerated(t *testing.T) {
	for path, want := range map[string]string{language.SchemaPath: string(language.Schema()), language.ReferencePath: string(language.Reference())} {
		golden.Same(t, filepath.Join("../../..", path), want)
	}
}

var topLevel = regexp.MustCompile(`(?m)^\w+`)

// whole makes a document of lines of a rule or, where these are no lines of one, of the document.
func whole(path, lines string) string {
	present := topLevel.FindAllString(lines, -1)
	indent := func(rule string) string { return strings.ReplaceAll(rule, "\n", "\n    ") }
	if !strings.HasPrefix(path, "rules.") {
		if strings.HasPrefix(lines, "rules:") {
			return lines + "\n"
		}
		return lines + "\nrules: [{ name: login, key: [client_ip], limit: 5/1m }]\n"
	}
	for _, base := range []string{"name: example", "key: [client_ip]", "limit: 5/1m"} {
		name, _, _ := strings.Cut(base, ":")
		exempt := strings.Contains(lines, "mode: exempt") && name != "name"
		exempt = exempt || slices.Contains(present, "shed") && name == "limit"
		if !slices.Contains(present, name) && !exempt && (name != "limit" || !slices.Contains(present, "limits")) {
			lines = base + "\n" + lines
		}
	}
	const lifted = "  - { name: other, key: [], limit: 5/1m }\n" // by exempt rules
	return "rules:\n  - " + indent(strings.TrimSpace(lines)) + "\n" + lifted
}

// TestExamples: each field has a text, a test that exists, and an example. The reader takes each example and each remedy,
// and rejects each mistake.
func TestExamples(t *testing.T) {
	s := schema(t)
	read := func(path, lines string) error {
		_, err := rulefile.Read("f", []byte(whole(path, lines)), ruletests.Check)
		return err
	}
	for _, f := range language.Fields() {
		if f.Description == "" || f.Example == "" {
			t.Errorf("%s: no description or no example", f.Path)
		}
		dir, name, _ := strings.Cut(f.Test, ".")
		proc.HasTest(t, dir, name)
		good := []string{f.Example}
		for wrong, right := range f.Mistakes {
			good = append(good, right)
			if read(f.Path, wrong) == nil {
				t.Errorf("%s: the mistake %q is taken", f.Path, wrong)
			}
		}
		for _, lines := range good {
			if err := read(f.Path, lines); err != nil {
				t.Errorf("%s: %q: %v", f.Path, lines, err)
			} else if err := s.Validate(document(t, []byte(whole(f.Path, lines)))); err != nil {
				t.Errorf("%s: the schema rejects %q: %v", f.Path, lines, err)
			}
		}
	}
}

// TestFields: in each mapping that an example has, the readers take the fields that the schema has, and no others: they name
// them in the place of one that is unknown.
func TestFields(t *testing.T) {
	const unknown = "zzzzzzzzzz"
	names := regexp.MustCompile(`unknown field; write (.*)$`)
	taken, described := map[string]bool{}, map[string]bool{} // fields
	met := map[string]bool{}                                 // mappings
	for _, f := range language.Fields() {
		described[f.Path] = true
		parent, name := f.Path[:max(0, strings.LastIndexByte(f.Path, '.'))], f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		var doc yaml.Node
		fatal.If(t, yaml.Unmarshal([]byte(whole(f.Path, f.Example)), &doc))
		spoil(&doc, name, unknown)
		_, err := rulefile.Read("f", fatal.Get(yaml.Marshal(&doc))(t), ruletests.Check)
		var mistakes strict.Errors
		errors.As(err, &mistakes)
		for _, m := range mistakes {
			in, isUnknown := strings.CutSuffix(m.Path, unknown)
			if in = language.Section(strings.TrimSuffix(in, ".")); !isUnknown || in != parent {
				continue
			}
			met[in] = true
			for _, name := range regexp.MustCompile(", | or ").Split(names.FindStringSubmatch(m.Reason)[1], -1) {
				taken[strings.TrimPrefix(in+"."+name, ".")] = true
			}
		}
		if !met[parent] {
			t.Errorf("%s: its example does not have it in its mapping: %v", f.Path, err)
		}
	}
	for path := range taken {
		if !described[path] {
			t.Errorf("the reader takes %s, and the schema does not", path)
		}
	}
	for path := range described {
		if in := path[:max(0, strings.LastIndexByte(path, '.'))]; met[in] && !taken[path] {
			t.Errorf("the schema takes %s, and the reader does not", path)
		}
	}
}

// spoil gives each mapping below a node that has a field of this name an unknown one.
func spoil(n *yaml.Node, name, unknown string) {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: unknown}, &yaml.Node{Kind: yaml.ScalarNode, Value: "1"})
			break
		}
	}
	for _, below := range n.Content {
		spoil(below, name, unknown)
	}
}

// TestSection: each path of a mistake leads to the section of its field.
func TestSection(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "nothing": "", "rules": "rules", "rules[3]": "rules",
		"regions.eu": "regions", "rules[0].x_ratelimi": "rules",
		"rules[0].limit.count":                            "rules.limit.count",
		"rules[0].overrides[12].limit.count":              "rules.limit.count",
		"rules[0].match.path[1].regex":                    "rules.match.path.regex",
		"rules[0].key[1].else.else.client_ip.ipv6_prefix": "client_ip.ipv6_prefix",
	} {
		if got := language.Section(path); got != want {
			t.Errorf("%s: section %q, want %q", path, got, want)
		}
	}
}
