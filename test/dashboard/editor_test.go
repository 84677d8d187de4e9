package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/browser"
)

// What one types is completed from the schema and checked; mistakes lead to their line, and cannot be applied.
func TestEditor(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann")
	s.Open("/#/edit/orders")
	s.write("rules:\n  - name: orders\n    match: { path: { prefix: /orders } }\n    key: [{ header: x-user }]\n    limit: 1/1d\n    algorithm: sliding\n")
	s.See("rules[0].algorithm")
	if !browser.Eval[bool](s.Browser, `[...document.querySelectorAll("button")].find(b => b.innerText === "Apply").disabled`) {
		t.Error("a document with a mistake can be applied")
	}
	s.Click("line 6")
	s.Shortcut('\r') // a line below
	s.Press("mo")
	s.complete("mode")
	s.Press("sha")
	s.complete("shadow")
	if text := s.typed(); !strings.HasSuffix(strings.TrimSpace(text), "    mode: shadow") {
		t.Errorf("typed: %s", text)
	}
	s.write(strings.Replace(s.typed(), "sliding", "fixed_window", 1))
	s.call(http.MethodPut, "/v1/overrides", `{"rule":"orders","key":["eve"],"limit":"0/1s","why":"meanwhile","until":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`) // no race: the document stays
	s.apply("one a day, on trial")
	s.becomes("/orders", "bob", http.StatusOK)
	s.Click("Enforce orders")
	s.See("No mistakes.")
	s.Fill("Reason", "one a day")
	s.Press("\r")
	s.becomes("/orders", "bob", http.StatusTooManyRequests)

	s.write("tests:\n  - name: orders\n    request: /orders\n    steps: [{ expect: allowed }]\nrules:\n  # it was mode: shadow\n  - name: orders # yes\n    match: { path: { prefix: /orders } }\n    key: [client_ip]\n    limit: 5/1d\n")
	s.Click("Put orders on trial (shadow)")
	if text := s.typed(); !strings.Contains(text, "# yes\n    mode: shadow\n    match") || strings.Count(text, "mode: shadow") != 2 {
		t.Errorf("typed: %s", text)
	}
	s.well("the editor", "412") // by the version that the override made
}

// complete takes what completion offers first, which must be this.
func (s *system) complete(word string) {
	s.Helper()
	s.Ready(`document.querySelector(".editor").shadowRoot.querySelector(".cm-tooltip-autocomplete li[aria-selected]")?.innerText.startsWith(` + quoted(word) + `)`)
	time.Sleep(100 * time.Millisecond) // it takes no key at once: one might have been for the text
	s.Press("\r")
}
