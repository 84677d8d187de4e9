package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/test/kit/browser"
	"github.com/weirlimit/weir/test/kit/proc"
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

// All pages answer with as many rules and overrides as a region takes, and traffic behind them.
func TestManyRules(t *testing.T) {
	document := manyRules()
	s := start(t, document)
	s.traffic("/orders", "ann")
	s.drawn("overview", func() {
		s.Open("/")
		s.Ready(`document.querySelector("[aria-label=Filter]")?.focus() ?? document.activeElement.ariaLabel === "Filter"`)
		s.Press("r77")
		s.See("of 1000 rows are shown")
		s.Click("r777")
		s.See("Rule r777")
	})
	s.drawn("rule", func() {
		s.Open("/#/rule/orders")
		s.Click("Limit this key")
		s.Click("Cancel")
		s.See("The first 200 of 100006 lines")
	})
	s.drawn("editor", func() {
		s.shows("/#/edit/r777", "No mistakes.")
		s.Press("x")
		s.See("this is not YAML")
	})
	s.drawn("a difference", func() {
		s.write(strings.ReplaceAll(document, "key: [user", "key: [usex"))
		s.See("No mistakes.")
		s.Click("Show changed requests")
		s.See("of 200000 changes")
	})
}

// What happened before a page is opened is on it: how many requests were rejected, and whom a trial would have hit.
func TestHistory(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann", "bob")
	proc.Eventually(t, time.Minute, "the region has rejections in its history", func() bool {
		var h v1.History
		s.answer("/v1/history?span=1h", &h)
		return slices.ContainsFunc(h.Rules, func(r v1.RuleHistory) bool {
			return r.Rule == "orders" && r.Denied[len(r.Denied)-1] > 0
		})
	})
	s.shows("/", "of requests rejected in the last hour, mostly by orders")
	s.Click("15 min")
	s.See("of requests rejected in the last 15 minutes, mostly by orders")
	s.shows("/#/rule/trial", "Whom the trial trial would hit", "In the last hour it would have rejected")
	s.well("the past")
}

// A connection on which nothing comes any more is noticed, what one sees is said to be old, and a stream that breaks comes
// back.
func TestStreamComesBack(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann")
	s.shows("/", "orders")
	s.region.Pause()
	s.health("unknown", "nothing has come for 10 s")
	s.See("orders")
	s.region.Resume()
	s.Lose("nothing has come for 10 s")
	s.well("silence")
	s.region.Kill()
	s.See("does not answer")
	s.region.Start()
	s.Lose("does not answer")
	s.See("orders")
	s.Bad() // it tells of calls that nobody answered
}
