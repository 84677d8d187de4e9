package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/browser"
	"github.com/weirlimit/weir/test/kit/proc"
)

// becomes waits until the PoP answers a user so.
func (s *system) becomes(path, user string, status int) {
	s.Helper()
	s.startPoP()
	proc.Eventually(s, 20*time.Second, fmt.Sprintf("%s of %s is %d", path, user, status), func() bool { return s.get(path, user) == status })
}

// From nothing to a login rule: tested, on trial with its would-be rejections seen, enforced, and rolled back. The first page is
// small, each page is sound, and a key of an attacker is shown as text.
func TestWay(t *testing.T) {
	s := start(t, "")
	began := time.Now()
	s.shows("/", "There are no rules.")
	s.health("unknown", "No PoP reports")
	loaded := browser.Eval[int](s.Browser, `[...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")]
		.filter(e => !e.name.includes("/v1/")).reduce((n, e) => n + e.encodedBodySize, 0)`)
	if loaded > 60_000 {
		t.Errorf("the first page has %d bytes, at most 60,000", loaded)
	}
	s.Click("Write the first one")
	s.write("rules:\n  - name: login\n    match: { path: /login }\n    key: [{ header: x-user }]\n    limit: 3/1m\n    algorithm: fixed_window\n" +
		"tests:\n  - name: three\n    request: { url: /login, headers: { x-user: ann } }\n    steps:\n      - { repeat: 3x, expect: { allowed: login } }\n      - { expect: { denied: login } }\n")
	s.See("No mistakes.")
	s.Click("Run the tests")
	s.See("1 of 1 tests passed.")
	s.write(strings.Replace(s.typed(), "- name: login\n", "- name: login\n    mode: shadow\n", 1))
	s.apply("login on trial")
	s.traffic("/login", "eve", hostile[0])
	s.shows("/#/rule/login", "would be rejected", hostile[0])
	s.safe("a rule")
	s.See("3 requests per minute per x-user · /login · on trial: rejects nothing · exact · admits if the region is unavailable")
	s.See("Whom the trial login would hit")
	s.becomes("/login", "eve", http.StatusOK)
	s.Open("/#/edit/login")
	s.Click("Enforce login")
	s.Click("Show changed requests")
	s.See("mode")
	s.apply("login enforced")
	s.becomes("/login", "eve", http.StatusTooManyRequests)
	s.sound("on a screen", map[string]string{"/#/": pages["/#/"], "/#/find/login": pages["/#/find/orders"], "/#/fleet": pages["/#/fleet"], "/#/rule/login": pages["/#/rule/orders"]})
	s.Open("/")
	s.health("warn", "Most requests are rejected")
	s.shows("/#/rule/login", "· /login · enforced · exact ·")
	s.Lose("would hit") // what it did on trial is not what it does enforced
	if url := s.value("Path or URL"); url != "/login" {
		t.Errorf("the request to test has the path %s", url)
	}
	s.Click("Explain")
	s.See("No rule rejects it, by what counters hold now.") // another user has a counter of its own
	s.See("login on trial")
	s.Click("Roll back")
	s.because("too strict", "Roll back", "has the rules of")
	s.becomes("/login", "eve", http.StatusOK)
	t.Logf("from nothing to a rule that was rolled back in %v", time.Since(began))
	s.well("the way")
}

// write replaces what is in the editor.
func (s *system) write(text string) {
	s.Helper()
	s.Ready(`document.querySelector(".editor")?.shadowRoot?.querySelector(".cm-content")`)
	browser.Eval[bool](s.Browser, `document.querySelector(".editor").shadowRoot.querySelector(".cm-content").focus(), true`)
	s.Shortcut('a')
	browser.Eval[bool](s.Browser, `(() => {
		const from = new DataTransfer()
		from.setData("text/plain", `+quoted(text)+`)
		const at = document.querySelector(".editor").shadowRoot.querySelector(".cm-content")
		return at.dispatchEvent(new ClipboardEvent("paste", { clipboardData: from, bubbles: true, cancelable: true }))
	})()`)
}

func (s *system) typed() string {
	s.Helper()
	s.Ready(`document.querySelector(".editor")?.shadowRoot?.querySelector(".cm-content")`)
	return browser.Eval[string](s.Browser, `[...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-line")].map(l => l.textContent).join("\n")`)
}

func (s *system) apply(why string) {
	s.Helper()
	s.See("No mistakes.")
	s.because(why, "Apply", "is the newest one.")
}

func quoted(v any) string {
	out, _ := json.Marshal(v) // what tests give always can be
	return string(out)
}

// limitKey gives the busiest key of a rule a limit of its own from its row.
func (s *system) limitKey(limit, reason string) {
	s.Click("Limit this key")
	s.Fill("Limit", limit)
	s.because(reason, "Limit this key", "The key has its own limit now.")
}

// The busiest key gets a limit of its own from its row, and loses it again; a candidate is tried; both are what the PoP decides.
func TestAmendments(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann")
	s.Open("/#/rule/orders")
	s.limitKey("0/1s", "she floods us")
	s.becomes("/orders", "ann", http.StatusTooManyRequests)
	s.becomes("/orders", "bob", http.StatusOK)
	s.See("she floods us")
	s.Click("End now")
	s.See("has ended.")
	s.becomes("/orders", "ann", http.StatusOK)

	s.Click("Find a limit")
	s.See("Keys by rate")
	s.See("last seconds") // the history has no minute yet
	s.Click("Save as baseline")
	s.Fill("Limit", "100")
	s.See("would reject")
	s.See("keys. In the baseline of")
	name := browser.Eval[string](s.Browser, `[...document.querySelectorAll("button")].find(b => b.innerText.startsWith("Try ")).innerText`)
	s.Click(name)
	s.because("is it enough?", "Try it", "The candidate is counted now.")
	s.shows("/#/rule/orders", "orders@candidate")
	s.well("amendments")
}

// The page of a rule that sheds load has what it admits, its text and the class of a request, and nothing about limits and keys.
func TestShedRule(t *testing.T) {
	s := start(t, `rules:
  - name: overload
    key: [{ header: x-user }]
    shed:
      capacity: 200
      classes: [{ class: critical, match: { path: /checkout } }]
`)
	s.traffic("/orders", "ann")
	s.shows("/#/rule/overload", "It sheds load at each PoP alone", "capacity: 200", "admitted")
	for _, of := range []string{"Keys that come most", "Try a limit", "demand"} {
		s.Lose(of)
	}
	s.Fill("Path or URL", "/checkout")
	s.Click("Explain")
	s.See("yes, as critical")
	s.See("It has no limit, and is rejected where a PoP has too much to do.")
	for _, v := range s.Violations(axe(t)) {
		t.Error(v)
	}
	s.well("a shed rule")
}

// A lost race keeps what was typed, and shows both.
func TestLostRace(t *testing.T) {
	s := start(t, rules)
	s.Open("/#/edit/orders")
	s.Ready(`document.querySelector(".editor")?.shadowRoot?.querySelector(".cm-content")`)
	var now struct{ Document string }
	tag := s.answer("/v1/rules", &now)
	s.call(http.MethodPut, "/v1/rules", fmt.Sprintf(`{"document":%q,"why":"I was faster"}`, strings.Replace(now.Document, "20/1s", "30/1s", 1)), "If-Match", tag)
	s.write(strings.Replace(now.Document, "20/1s", "40/1s", 1))
	s.See("No mistakes.")
	s.because("mine", "Apply", "I was faster")
	s.Click("Back to the editor")
	s.still("40/1s")
	if s.answer("/v1/rules", &now); !strings.Contains(now.Document, "30/1s") {
		t.Errorf("in force is %s", now.Document)
	}
	s.well("a lost race", "412")
}

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
