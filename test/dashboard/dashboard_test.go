// Package dashboard has the tests of the dashboard: a real Chromium, region and PoPs under traffic.
package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/browser"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// system is a region that keeps versions of its rules, a PoP where a test has traffic, clients, and a browser.
type system struct {
	*testing.T
	*browser.Browser
	region *region.Region
	pop    string // empty: none was asked yet
	keys   *keys  // nil: the API needs no tokens
}

// start starts all of it. Without rules the document has none; with keys the API needs tokens. With -short TestWay alone
// runs, which proves most of the dashboard.
func start(t *testing.T, rules string, k ...*keys) *system {
	t.Helper()
	if testing.Short() && t.Name() != "TestWay" {
		t.Skip("runs in make test-long")
	}
	dir := proc.LogDir(t)
	flags := []string{"--region", "local", "--rules", "store:", "--state", filepath.Join(dir, "region.state")}
	s := &system{T: t}
	if len(k) > 0 {
		flags, s.keys = append(flags, "--admin-tokens", k[0].file), k[0]
	}
	r := region.New(t, region.Config{Dir: dir, Flags: flags})
	r.Begin()
	s.region = r
	proc.Eventually(t, 20*time.Second, "the region serves", func() bool { status, _ := r.Probe("/healthz"); return status == http.StatusOK })
	s.call(http.MethodPut, "/v1/rules", fmt.Sprintf(`{"document":%q,"why":"begin"}`, cmp.Or(rules, "rules: []\n")), "If-Match", `"0"`)
	r.AwaitReady()
	s.Browser = browser.Start(t, "http://"+r.Admin)
	return s
}

// call makes a call of the admin API as somebody else does, as robot if it needs tokens. It returns the body and the ETag.
func (s *system) call(method, path, body string, header ...string) (answer, tag string) {
	s.Helper()
	header = append(header, "Content-Type", "application/json")
	if s.keys != nil {
		header = append(header, "Authorization", "Bearer "+s.keys.tokens["robot"])
	}
	r := fatal.Get(stack.Do(s.region.Admin, method, path, body, header...))(s)
	if r.Status >= 300 {
		s.Fatalf("%s %s: %d %s", method, path, r.Status, r.Body)
	}
	return r.Body, r.Header.Get("ETag")
}

// answer is what the API answers, and its ETag.
func (s *system) answer(path string, to any) (tag string) {
	s.Helper()
	answer, tag := s.call(http.MethodGet, path, "")
	fatal.If(s, json.Unmarshal([]byte(answer), to))
	return tag
}

func (s *system) startPoP() {
	if s.pop == "" {
		s.pop = popOf(s.T, s.region.Addr)
	}
}

// popOf starts a PoP of a region. The native module is there at once.
func popOf(t *testing.T, region string) (addr string) {
	return stack.Start(t, stack.Config{PoPs: 1, RegionAddr: region, Bootstrap: (*envoy.Bootstrap).SetNative}).PoPs[0].Addr
}

// get is what the PoP answers to a request of a user; 0: it does not.
func (s *system) get(path, user string) int {
	answer, _ := stack.Do(s.pop, http.MethodGet, path, "", "x-user", user)
	return answer.Status
}

// traffic has users make some requests a second until the test ends.
func (s *system) traffic(path string, users ...string) {
	s.startPoP()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i, user := range users {
		all.Go(func() {
			for ctx.Err() == nil {
				s.get(path, user)
				time.Sleep(time.Duration(i+1) * 20 * time.Millisecond)
			}
		})
	}
	s.Cleanup(func() { stop(); all.Wait() })
}

// shows opens a page, and waits until it has these texts.
func (s *system) shows(page string, texts ...string) {
	s.Helper()
	s.Open(page)
	for _, text := range texts {
		s.See(text)
	}
}

// because gives a reason, clicks a button, and waits until the page has a text.
func (s *system) because(reason, button, text string) {
	s.Helper()
	s.Fill("Reason", reason)
	s.Click(button)
	s.See(text)
}

// health waits until the banner has a level and a text.
func (s *system) health(level, text string) {
	s.Helper()
	s.Ready(fmt.Sprintf(`document.querySelector(".banner.%s")?.innerText.includes(%q)`, level, text))
}

// value is what the field with a label has.
func (s *system) value(label string) string {
	s.Helper()
	return browser.Eval[string](s.Browser, fmt.Sprintf(`document.getElementById([...document.querySelectorAll("label")].find(e => e.innerText.trim() === %q).htmlFor).value`, label))
}

// well fails the test if the page did what it must not do. A browser's console has each answer that is no success; those
// with one of these statuses were asked for.
func (s *system) well(where string, but ...string) {
	s.Helper()
	for _, bad := range s.Bad() {
		if !slices.ContainsFunc(but, func(status string) bool { return strings.Contains(bad, "status of "+status) }) {
			s.Errorf("%s: %s", where, bad)
		}
	}
}

// axe is the script that finds what people stumble over.
func axe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), "dashboard/node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatalf("%v: run make dashboard", err)
	}
	return string(text)
}

const rules = `rules:
  - name: orders
    match: { path: { prefix: /orders } }
    key: [{ header: x-user }]
    limit: 20/1s
    algorithm: fixed_window
  - name: trial
    mode: shadow
    match: { path: { prefix: /orders } }
    key: [{ header: x-user }]
    limit: 5/1s
tests:
  - name: twenty
    request: { url: /orders, headers: { x-user: ann } }
    steps:
      - { repeat: 20x, expect: { allowed: orders } }
      - { expect: { denied: orders } }
`

// wider lists what makes a page wider than its window.
const wider = `(() => {
	const width = document.documentElement.clientWidth
	if (document.documentElement.scrollWidth <= width) return []
	return [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > width).map(e => e.outerHTML.slice(0, 120))
})()`

// pages are all, and what each shows when it is there.
var pages = map[string]string{
	"/#/":             "Top keys",
	"/#/rule/orders":  "Keys that come most",
	"/#/find/orders":  "Keys by rate",
	"/#/edit/orders":  "Show changed requests",
	"/#/fleet":        "reserve of global limits",
	"/#/rule/missing": "There is no rule named missing.",
	"/#/nowhere":      "There is no such page.",
}

// Each page works with live traffic behind it, in the light and in the dark, on a screen and on a phone: without an error, a
// request elsewhere, and anything that axe finds.
func TestPages(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann", "bob")
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{1280, 390} {
			s.Size(width, 900, dark)
			s.sound(fmt.Sprintf("%d wide, dark %v", width, dark), pages)
		}
	}
}

// sound opens pages, and fails the test where one is wider than its window, hinders people, or does what it must not do.
func (s *system) sound(how string, pages map[string]string) {
	s.Helper()
	script := axe(s.T)
	for page, text := range pages {
		s.Open("/")
		s.shows(page, text)
		if strings.HasPrefix(page, "/#/rule/") && page != "/#/rule/missing" {
			s.See("Limit this key")
		}
		for _, v := range append(s.Violations(script), browser.Eval[[]string](s.Browser, wider)...) {
			s.Errorf("%s, %s: %s", page, how, v)
		}
		s.well(page)
	}
}
