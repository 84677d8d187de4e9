package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/dashboard"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/test/kit/browser"
)

// manyRules is a document with as many rules and overrides as a region takes: 4.6 MB.
func manyRules() string {
	var b strings.Builder
	b.WriteString(strings.SplitAfter(rules, "fixed_window\n")[0] + "    overrides:\n")
	for i := range 100_000 {
		fmt.Fprintf(&b, "      - { key: [user-%06d], limit: 30/1s }\n", i)
	}
	for i := range 999 {
		fmt.Fprintf(&b, "  - { name: r%03d, match: { path: { prefix: /p%03d } }, key: [{ header: x-user }], limit: 20/1s }\n", i, i)
	}
	return b.String()
}

// drawn logs how long a page takes, and fails the test if it has very many elements.
func (s *system) drawn(page string, do func()) {
	s.Helper()
	began := time.Now()
	do()
	n := browser.Eval[int](s.Browser, `[document, ...[...document.querySelectorAll(".editor")].map(e => e.shadowRoot)].reduce((n, at) => n + (at?.querySelectorAll("*").length ?? 0), 0)`)
	s.Logf("%s: %v, %d elements", page, time.Since(began).Round(time.Millisecond), n)
	if n > 20_000 {
		s.Errorf("%s has %d elements", page, n)
	}
	s.well(page)
}

// filter types into the filter of the first long table.
func (s *system) filter(text string) {
	s.Ready(`document.querySelector("[aria-label=Filter]")?.focus() ?? document.activeElement.ariaLabel === "Filter"`)
	s.Press(text)
}

// All pages answer with as many rules and overrides as a region takes, and traffic behind them.
func TestManyRules(t *testing.T) {
	document := manyRules()
	s := start(t, document)
	s.traffic("/orders", "ann")
	s.drawn("overview", func() {
		s.Open("/")
		s.filter("r77")
		s.See("of 1000 are shown")
		s.Click("r777")
		s.See("Rule r777")
	})
	s.drawn("rule", func() {
		s.Open("/#/rule/orders")
		s.Click("Limit this key")
		s.Click("Cancel")
		s.See("The first 200 of 100006 lines")
	})
	s.drawn("find", func() {
		s.Open("/#/find/orders")
		s.Fill("The line", "100")
		s.See("stops")
		s.Fill("Rule", "r777")
		browser.Eval[bool](s.Browser, `document.getElementById("of-rule").dispatchEvent(new Event("change", { bubbles: true }))`)
		s.Ready(`location.hash === "#/find/r777"`)
	})
	s.drawn("fleet", func() {
		s.Open("/#/fleet")
		s.See("begin")
	})
	s.drawn("editor", func() {
		s.Open("/#/edit/r777")
		s.See("No mistakes.")
		s.Press("x")
		s.See("this is not YAML")
	})
	s.drawn("a difference", func() {
		s.write(strings.ReplaceAll(document, "key: [user", "key: [usex"))
		s.See("No mistakes.")
		s.Click("Which requests change?")
		s.See("of 200000 changes")
	})
	s.drawn("ten thousand rules", func() {
		var b strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&b, "  - { name: r%04d, key: [{ header: x-user }], limit: 20/1s }\n", i)
		}
		s.write("rules:\n" + b.String())
		s.See("has 10000 items; write at most 1000")
	})
	s.drawn("ten megabytes", func() {
		s.write(document + document + document)
		s.See("write at most 8388608")
	})
}

// All pages answer with much more than one region has: what they show comes from a server of the test.
func TestManyMembers(t *testing.T) {
	const long = "because of <b>this</b> and that "
	status := v1.Status{Seen: v1.Seen{Of: "all regions"}, Silent: []string{}}
	for i := range 10_000 {
		status.Rules = append(status.Rules, v1.Use{Rule: fmt.Sprintf("r%04d", i), Matched: 1e6, Denied: 10, Hint: v1.HintKeyMissing})
	}
	for i := range 2000 {
		status.Members = append(status.Members, v1.Member{Kind: []string{"pop", "region"}[i%2], Region: fmt.Sprintf("region-%d", i%100),
			Name: fmt.Sprintf("member-%d", i), Holder: fmt.Sprint(i), ReservePerMille: 100, Problem: long})
	}
	var set v1.Amendments
	for i := range 1000 {
		set.Items = append(set.Items, amend.Entry{Kind: "override", Who: "ann", Amendment: amend.Amendment{Rule: "r0777", Key: []string{fmt.Sprint("user-", i)},
			Limit: json.RawMessage(`"5/1m"`), Until: time.Now().Add(time.Hour), Why: strings.Repeat(long, 60)}})
	}
	versions, audit := v1.Versions{Next: 9}, v1.Audit{Next: "9"}
	for i := range 100 {
		versions.Items = append(versions.Items, v1.Version{Revision: uint64(1000 - i), Who: "ann", Why: strings.Repeat(long, 60)})
		audit.Items = append(audit.Items, v1.AuditEntry{ID: fmt.Sprint(i), Who: "ann", What: "rules.apply", Why: strings.Repeat(long, 60)})
	}
	api := http.NewServeMux()
	api.Handle("/", dashboard.Handler())
	for path, answer := range map[string]any{"/v1/rules": v1.Rules{Source: "store"}, "/v1/overrides": set, "/v1/candidates": v1.Amendments{}, "/v1/rules/versions": versions, "/v1/audit": audit} {
		api.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) })
	}
	event, _ := json.Marshal(status)
	t.Logf("the status of %d rules and %d members has %d bytes", len(status.Rules), len(status.Members), len(event))
	api.HandleFunc("/v1/stream", func(w http.ResponseWriter, r *http.Request) {
		for every := time.NewTicker(time.Second); r.Context().Err() == nil; <-every.C {
			fmt.Fprintf(w, "event: status\ndata: %s\n\n", event)
			w.(http.Flusher).Flush()
		}
	})
	server := httptest.NewServer(api)
	defer server.CloseClientConnections() // the stream's
	s := &system{T: t, Browser: browser.Start(t, server.URL)}
	for page, do := range map[string]func(){
		"/#/":           func() { s.filter("r0777"); s.Click("r0777"); s.See("Rule r0777") },
		"/#/rule/r0777": func() { s.filter("user-999"); s.See("1 of 1000 are shown") },
		"/#/find/r0777": func() { s.See("Keys by their rates") },
		"/#/fleet":      func() { s.filter("member-1999"); s.See("1 of 2000 are shown"); s.Click("Older changes") },
	} {
		s.drawn(page, func() { s.Open(page); do() })
	}
}
