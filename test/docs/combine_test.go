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

// TestWhatGoesTogether reads a document for each pair of features that docs/rules.md names under "Combinations".
func TestWhatGoesTogether(t *testing.T) {
	features := []string{"percent", "variants", "shadow", "candidate", "exempt", "limits", "hash", "calendar"}
	for i, feature := range features {
		if _, err := rulefile.Parse("alone", []byte(combined(feature))); err != nil {
			t.Errorf("%s alone: %v", feature, err)
		}
		for _, other := range features[i+1:] {
			want := feature != "exempt" && other != "exempt" && (feature != "percent" || other != "variants")
			if _, err := rulefile.Parse("pair", []byte(combined(feature, other))); (err == nil) != want {
				t.Errorf("%s and %s: want legal %v, read: %v", feature, other, want, err)
			}
		}
	}
}
