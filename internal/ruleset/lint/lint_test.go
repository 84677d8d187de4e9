package lint_test

import (
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
		examples := yamlOf(text)
		if len(examples) != 2 {
			t.Fatalf("%s: %d examples; want one that has the warning and one that has not", code, len(examples))
		}
		if got := codes(t, examples[0]); got != code {
			t.Errorf("%s: the first example has the warnings %q", code, got)
		}
		if got := codes(t, examples[1]); got != "" {
			t.Errorf("%s: the second example has the warnings %q; want none", code, got)
		}
	}
}

// TestCodes: what a client chooses under not is like an exempt rule; what covers another condition may be written in other
// words; and a rule that is expanded into several is warned of once.
func TestCodes(t *testing.T) {
	const limited = "key: [client_ip], limit: 60/1m"
	for rules, want := range map[string]string{
		`{ name: a, match: { not: { header: { x-internal: "1" } } }, LIMITED }`:                            "client-header",
		`{ name: a, match: { not: [{ path: /health }, { query: { dry: "1" } }] }, LIMITED }`:               "client-header",
		`{ name: a, match: { not: { header: { x: "1" }, client_ip: [10.0.0.0/8] } }, LIMITED }`:            "",
		`{ name: a, LIMITED }, { name: b, mode: exempt, match: { not: { header: { x-bot: "1" } } } }`:      "client-header",
		"{ name: a, match: { path: /v1/a, not: { path: { prefix: /v1/ } } }, LIMITED }":                    "never-matches",
		"{ name: a, match: { path: /v1/a, not: { path: { prefix: /v1/ }, ignore_case: true } }, LIMITED }": "",
		`{ name: a, match: { path: { template: "/v1/{id}" }, not: { path: /v1/a } }, LIMITED }`:            "",
		`{ name: a, mode: exempt, match: { client_ip: 10.0.0.0/8, not: { path: /login } } },
		 { name: b, match: { client_ip: 10.1.0.0/16, not: { path: { prefix: /lo } } }, LIMITED }`: "always-exempt",
		`{ name: a, mode: exempt, match: { client_ip: 10.0.0.0/8, not: { path: { prefix: /lo } } } },
		 { name: b, match: { client_ip: 10.1.0.0/16, not: { path: /login } }, LIMITED }`: "",
		`{ name: a, LIMITED, overrides: [{ when: { label: { x: { present: true } } }, limit: 9/1m }, { when: { label: { x: a, y: b } }, limit: 8/1m }] }`: "override-unreachable",
		`{ name: a, shed: { capacity: 9, classes: [{ class: critical, match: { cookie: { c: "1" } } }] } }`:                                               "critical-by-client",
		`{ name: a, shed: { capacity: 9, classes: [{ class: low, match: { path: /a } }, { class: bulk, match: { path: /a, method: GET } }] } }`:           "never-matches",
		`{ name: a, shed: { capacity: 9, classes: [{ class: critical, match: { not: { query: { q: "1" } } } }] } }`:                                       "critical-by-client",
		`{ name: a, shed: { capacity: 9, classes: [{ class: normal, match: { header: { x: "1" } } }] } }`:                                                 "",
		`{ name: a, shed: { capacity: 9, classes: [{ class: critical, match: { header: { x: "1" }, client_ip: 10.0.0.0/8 } }] } }`:                        "",
		`{ name: a, shed: { capacity: 9, classes: [{ class: low, match: { header: { user-agent: bot } } }] } }`:                                           "client-header",
		`{ name: a, shed: { capacity: 9, classes: [{ class: low, match: { path: /a, until: "2020-01-01T00:00:00Z" } }] } }`:                               "over",
		`{ name: a, mode: exempt, match: { path: { prefix: /a } } }, { name: b, match: { path: /a }, key: [{ header: u }], shed: { capacity: 9 } }`:       "always-exempt",
		`{ name: a, LIMITED }, { name: login, key: [client_ip], shed: { capacity: 9 } }, { name: c, key: [client_ip], shed: { capacity: 9 } }`:            "",
		`{ name: api, key: [{ header: x-user }], limits: [500/1m, 2000/1d], variants: [{ name: a, weight: 50 }, { name: b, weight: 50 }] }],
		 candidates: [{ rule: api, limit: 300/1m }`: "key-without-else",
		// These look like others, and are meant.
		`{ name: a, LIMITED }, { name: b, mode: shadow, key: [client_ip], limit: 30/1m }`:                                                        "",
		`{ name: a, LIMITED }, { name: b, scope: pop, key: [client_ip], limit: 30/1m }`:                                                          "",
		`{ name: a, mode: off, key: [{ header: user-agent }], limit: 60/1m }`:                                                                    "",
		`{ name: a, key: [{ header: x-user, else: { query: user, else: client_ip } }], limit: 60/1m }`:                                           "",
		`{ name: a, mode: exempt, match: { path: /healthz } }, { name: b, match: { path: /healthz, ignore_case: true }, LIMITED }`:               "",
		`{ name: a, mode: exempt, match: { client_ip: 10.0.0.0/8 } }, { name: b, match: { client_ip: 10.0.0.0/8, trusted_hops: 1 }, LIMITED }`:   "",
		`{ name: a, LIMITED, overrides: [{ when: { header: { x: g, y: "1" } }, limit: 100/1m }, { when: { header: { x: g } }, limit: 90/1m }] }`: "",
	} {
		if got := codes(t, "{ rules: ["+strings.ReplaceAll(rules, "LIMITED", limited)+"] }"); got != want {
			t.Errorf("%s: %q; want %q", rules, got, want)
		}
	}
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

// yamlOf returns the blocks of YAML of a page.
func yamlOf(text string) (blocks []string) {
	for _, part := range strings.Split(text, "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
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
