package lint_test

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/lint"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// now is the time at which the examples are read.
var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestWarningsPage reads docs/warnings.md: the first example below each heading has that warning and no other, the
// second one, which is what the page tells to write, has none. Each code is a heading.
func TestWarningsPage(t *testing.T) {
	page := fatal.Get(os.ReadFile("../../../docs/warnings.md"))(t)
	sections := strings.Split(string(page), "\n## ")[1:]
	if len(sections) != len(lint.Codes) {
		t.Fatalf("the page has %d sections; want one for each of %d codes", len(sections), len(lint.Codes))
	}
	for i, section := range sections {
		code, text, _ := strings.Cut(section, "\n")
		if code != lint.Codes[i] {
			t.Errorf("heading %q; want %s", code, lint.Codes[i])
		}
		examples := strings.Split(text, "```yaml\n")[1:]
		if len(examples) != 2 {
			t.Fatalf("%s: %d examples; want one that has the warning and one that has not", code, len(examples))
		}
		for i, want := range []string{code, ""} {
			example, _, _ := strings.Cut(examples[i], "```")
			if got := codes(t, example); got != want {
				t.Errorf("%s: example %d has the warnings %q; want %q", code, i+1, got, want)
			}
		}
	}
}

// TestCodes: what a client chooses under not is like an exempt rule; what covers another condition may be written in other
// words; and a rule that is expanded into several is warned of once.
func TestCodes(t *testing.T) {
	golden.Lines(t, "testdata/codes.golden", func(rules string) string {
		return cmp.Or(codes(t, "{ rules: ["+strings.ReplaceAll(rules, "LIMITED", "key: [client_ip], limit: 60/1m")+"] }"), "none")
	})
	if n := reflect.TypeFor[rule.Match]().NumField(); n != 16 {
		t.Errorf("a match has %d fields, and Covers compares 16", n)
	}
}

// codes are the codes of a document's warnings, joined by blanks.
func codes(t *testing.T, document string) string {
	t.Helper()
	d, err := rulefile.Read("example", []byte(document))
	if err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	var found []string
	place := d.Places()
	for _, w := range lint.Check(d.Set, now) {
		if at := place(w.Rule, w.Field); at.Pos.Line == 0 || at.Path == "" {
			t.Errorf("%s of %s: no place in\n%s", w.Code, w.Rule, document)
		}
		found = append(found, w.Code)
	}
	return strings.Join(found, " ")
}

// TestOverOfACandidate: the warning is about the candidate, and not about the match of its rule.
func TestOverOfACandidate(t *testing.T) {
	d := fatal.Get(rulefile.Read("example", []byte(`rules:
  - { name: a, key: [client_ip], limit: 5/1m, overrides: [{ when: { method: GET }, limit: 6/1m }] }
  - { name: b, match: { path: /b, until: 2020-01-01T00:00:00Z }, key: [client_ip], limit: 5/1m }
candidates:
  - { rule: b, limit: 3/1m }
  - { rule: a, limit: 3/1m, until: 2020-01-01T00:00:00Z }`)))(t)
	place := d.Places()
	var got []string
	for _, w := range lint.Check(d.Set, now) {
		at := place(w.Rule, w.Field)
		got = append(got, fmt.Sprintf("%s:%d:%s", w.Code, at.Pos.Line, at.Path))
	}
	if want := "over:3:rules[1].match over:6:candidates[1]"; strings.Join(got, " ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}
