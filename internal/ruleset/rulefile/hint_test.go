package rulefile_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestFirstTries reads what people write first, in the words of other rate limiters or with a slip: each is rejected with
// its line, its field and what to write. In testdata/tries.golden a line with $ is put into a rule that is right but for
// that field.
func TestFirstTries(t *testing.T) {
	golden.Lines(t, "testdata/tries.golden", func(try string) string {
		_, err := rulefile.Parse("", []byte(around(strings.ReplaceAll(try, `\t`, "\t"))))
		if err == nil {
			t.Fatalf("%q is taken; want an error", try)
		}
		return err.Error()
	})
}

// around is a document with one rule that has a field as it was tried.
func around(try string) string {
	field, _, _ := strings.Cut(strings.TrimSpace(try), ":")
	text := "rules:\n  - name: a\n"
	for _, line := range []string{"key: [client_ip]", "limit: 5/1m"} {
		if !strings.HasPrefix(line, field+":") {
			text += "    " + line + "\n"
		}
	}
	return text + "    " + try + "\n"
}

// TestLineOfASyntaxError: where the YAML of a long file is wrong, the message has the line of the mistake or, if the
// mistake shows only behind it, of the next one, and not of the block around it.
func TestLineOfASyntaxError(t *testing.T) {
	before := "rules:\n" + strings.Repeat("  - { name: a, key: [], limit: 5/1m }\n", 50) + "  - name: b\n" // 52 lines
	after := "  - { name: c, key: [], limit: 5/1m }\n"
	for wrong, line := range map[string]string{
		"   key: []\n    limit: 5/1m\n":                       "53",
		"      key: []\n":                                     "53",
		"    key: []\n     limit: 5/1m\n":                     "54",
		"    match: { path: /users/{id} }\n    key: []\n":     "53",
		"\tkey: []\n    limit: 5/1m\n":                        "53",
		"    - key: []\n    limit: 5/1m\n":                    "53",
		"    limit:5/1m\n    key: []\n":                       "53",
		"    rejection: { body: Slow: down }\n    key: []\n":  "54",
		"    match: { path: \"/a }\n    key: []\n":            "53",
		"    match: { path: '/it's' }\n    key: []\n":         "54",
		"    key: [client_ip]]\n    limit: 5/1m\n":            "54",
		"    key: [client_ip\n    limit: 5/1m\n    cost: 1\n": "55",
	} {
		_, err := rulefile.Parse("f", []byte(before+wrong+after))
		if err == nil || !strings.HasPrefix(err.Error(), "f:"+line+": this is not YAML, here or in the lines above: ") {
			t.Errorf("%q: %v; want line %s", wrong, err, line)
		}
	}
	if _, err := rulefile.Parse("f", []byte(`{"rules": [] "seed": 1}`)); err == nil || !strings.HasPrefix(err.Error(), "f:1: ") {
		t.Errorf("in the first line: %v", err)
	}
}
