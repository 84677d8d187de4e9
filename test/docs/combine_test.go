package docs

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// combined is a document with one rule that has these features.
func combined(features ...string) string {
	rule, doc, limit := []string{"name: r"}, "", "limit: 5/1m"
	has := func(feature string) bool { return slices.Contains(features, feature) }
	switch {
	case has("limits") && has("calendar"):
		limit = "limits: [5/1m, 20/month]"
	case has("limits"):
		limit = "limits: [5/1m, 20/1d]"
	case has("calendar"):
		limit = "limit: 20/month"
	case has("exempt"):
		limit = ""
	}
	if rule = append(rule, limit); !has("exempt") {
		rule = append(rule, "key: [client_ip]", "algorithm: fixed_window")
	}
	for feature, line := range map[string]string{
		"percent": "percent: 20", "hash": "hash: true", "shadow": "mode: shadow", "exempt": "mode: exempt\n    match: { path: /healthz }",
		"variants": "variants: [{ name: a, weight: 90 }, { name: b, weight: 10, consistency: exact }]",
	} {
		if has(feature) {
			rule = append(rule, line)
		}
	}
	if has("candidate") {
		doc = "candidates: [{ rule: r, limit: 3/1m }]\n"
	}
	return doc + "rules:\n  - " + strings.Join(slices.DeleteFunc(rule, func(line string) bool { return line == "" }), "\n    ") +
		"\n  - { name: other, key: [], limit: 5/1m }\n"
}

// TestWhatGoesTogether reads a document for each pair of the table in docs/rules.md.
func TestWhatGoesTogether(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/rules.md"), "\n## Combinations\n")
	cells := func(line string) (out []string) {
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			out = append(out, strings.TrimSpace(cell))
		}
		return out
	}
	lines := slices.DeleteFunc(strings.Split(table, "\n"), func(line string) bool { return !strings.HasPrefix(line, "|") })
	features := cells(lines[0])[1:]
	if len(lines) < 2+len(features) || len(features) < 8 {
		t.Fatalf("%d lines for %v", len(lines), features)
	}
	for i, feature := range features {
		if _, err := rulefile.Parse("alone", []byte(combined(feature))); err != nil {
			t.Errorf("%s alone: %v", feature, err)
		}
		row := cells(lines[2+i])
		for j, other := range features {
			want := row[1+j]
			if i == j && want == "" {
				continue
			}
			_, err := rulefile.Parse("pair", []byte(combined(feature, other)))
			if is := map[bool]string{true: "yes", false: "no"}[err == nil]; is != want {
				t.Errorf("%s and %s: the table has %q, read: %v", feature, other, want, err)
			}
		}
	}
}
