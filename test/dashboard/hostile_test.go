package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/browser"
)

// hostile are keys of an attacker, which operators see.
var hostile = []string{
	`<img src=x onerror=alert(1)>`, `"><script>alert(2)</script>`, `javascript:alert(3)`, "\u202egnp.exe", `{{7*7}}`, `' onmouseover='alert(4)`,
	strings.Repeat("<b>", 1300),
}

// evil is a text of others wherever one can be, and spelt is how pages show it.
const (
	evil  = "<img src=x onerror=alert(5)>\u202e\x1b[31m\u200b\"'"
	spelt = `<img src=x onerror=alert(5)>\xe2\x80\xae\x1b[31m\xe2\x80\x8b"'`
)

// traps have the text of others in all places of a document that may have it, and two tests that fail.
func traps(limit string) string {
	q := quoted(evil)
	return `rules:
  - name: orders
    match: { path: { prefix: /orders } }
    key: [{ header: x-user }]
    limit: ` + limit + `
    overrides: [{ key: [` + q + `], limit: 1/1s }]
  - name: search # ` + "\u202e" + `<img src=x onerror=alert(6)>
    match: { path: /search, query: { ` + q + `: ` + q + ` } }
    key: [{ query: q }]
    limit: ` + limit + `
  - name: all
    match: { path: /search }
    key: [{ query: q }]
    limit: 20/1s
tests:
  - name: ` + q + `
    request: { url: /orders, headers: { x-user: ` + q + ` } }
    steps:
      - { repeat: 20x, expect: { allowed: orders } }
  - name: the other
    request: { url: /orders, headers: { x-user: ann } }
    steps:
      - { repeat: 2x, expect: { denied: orders, key: ` + q + ` } }
`
}

// strange finds what texts of others have made of a page: elements, handlers, and characters that one does not see.
const strange = `(() => {
	const found = [], unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/
	const look = (text, where) => unseen.test(text) && found.push(where + " has " + JSON.stringify(text.slice(0, 200)))
	for (const root of [document, ...[...document.querySelectorAll(".editor")].map(e => e.shadowRoot).filter(r => r)]) {
		for (const e of root.querySelectorAll("*")) {
			if (e.matches("img[src], script, b, iframe, object, embed") && e.parentNode !== document.head) found.push(e.outerHTML.slice(0, 200))
			for (const a of e.attributes) {
				if (a.name.startsWith("on") || /^\s*javascript:/i.test(a.value)) found.push(e.outerHTML.slice(0, 200))
				look(a.value, a.name)
			}
			if (root === document && e.localName !== "textarea") for (const c of e.childNodes) if (c.nodeType === 3) look(c.data, e.localName)
		}
	}
	look(document.title, "the title")
	return found
})()`

// safe fails the test if a text of others did something on the page.
func (s *system) safe(where string) {
	s.Helper()
	for _, found := range browser.Eval[[]string](s.Browser, strange) {
		s.Errorf("%s: %s", where, found)
	}
	s.well(where)
}

// What attackers send as keys, and others as names, reasons and tests, is shown as text wherever it is shown, and nothing runs.
func TestHostile(t *testing.T) {
	s := start(t, rules)
	put := func(path string, body map[string]any, header ...string) {
		s.call(http.MethodPut, path, quoted(body), header...)
	}
	put("/v1/rules", map[string]any{"document": traps("20/1s"), "why": evil}, "If-Match", s.answer("/v1/rules", new(any)))
	for _, key := range hostile {
		s.traffic("/orders", key)
	}
	s.traffic("/orders", "\xff\xfe")
	s.traffic("/search?q="+url.QueryEscape(evil+"\x00\n"), "ann")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	put("/v1/overrides", map[string]any{"rule": "orders", "key": []string{evil + "2"}, "limit": "2/1s", "until": until, "why": evil})
	put("/v1/candidates", map[string]any{"rule": "orders", "limit": "3/1s", "until": until, "why": evil})

	s.shows("/#/rule/orders", hostile[0], `\xe2\x80\xaegnp.exe`, spelt+"2", `\xff\xfe`, "orders@candidate")
	s.safe("a rule")
	s.Open("/#/rule/search")
	s.See(`# \xe2\x80\xae<img src=x onerror=alert(6)>`) // its text
	s.Fill("Path or URL", "/search?q=1")
	s.Click("Explain")
	s.See("no: query " + spelt)
	s.safe("an explanation")
	s.shows("/#/rule/all", spelt+`\x00\x0a`)
	s.Click("Limit this key")
	s.See(spelt + `\x00\x0a`)
	s.safe("a key")
	s.Click("Cancel")
	s.Click("Roll back")
	s.See("A new version gets the rules of")
	s.safe("going back")
	s.Click("Cancel")
	s.shows("/#/fleet", spelt)
	s.safe("the audit")

	s.Open("/#/edit/orders")
	s.write(traps("30/1s"))
	s.See("No mistakes.")
	s.Click("Run the tests")
	s.See("0 of 2 tests passed.")
	s.See(spelt)
	s.safe("tests")
	s.Click("Show changed requests")
	s.See("changed 2")
	s.safe("a comparison")
	s.write("rules:\n  - name: " + quoted(evil) + "\n    " + quoted(evil) + ": 1\n    limit: " + quoted(evil) + "\n")
	s.See("unknown field")
	s.safe("mistakes")

	for _, name := range append(hostile, evil, "__proto__", "constructor", "%", "..%2f..%2fv1") {
		s.Open("/")
		s.shows("/#/rule/"+url.PathEscape(name), "No rule of this name is in force.")
		s.safe("the rule " + fmt.Sprintf("%.40q", name))
		for _, page := range []string{"find", "edit", "fleet", "nowhere", "rule/orders"} {
			s.Open("/#/" + page + "/" + url.PathEscape(name))
			s.safe(page)
		}
	}
	s.shows("/#/%", "Overview")
	s.safe("no address")
}
