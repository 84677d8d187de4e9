package dashboard

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/browser"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// shown are the pictures of docs/dashboard.md, what each shows when it is complete, and the width of the window.
var shown = []struct {
	name, page, text string
	width            int64
}{
	{"overview", "/#/", "of requests rejected", 1280},
	{"rule", "/#/rule/login", "Limit this key", 1280},
	{"find", "/#/find/login", "Keys by rate", 1280},
	{"edit", "/#/edit", "No mistakes.", 1280},
	{"fleet", "/#/fleet", "Leases", 1280},
	{"phone", "/#/rule/login", "Limit this key", 390},
}

// outline are the ways and headings of a page, which do not change with what it counts.
const outline = `[...document.querySelectorAll("nav a, h1, h2")]
	.map(e => e.innerText.trim().replace(/ \(\d+\)/, "")).join(" | ")`

// The pictures of docs/dashboard.md show the current pages. With -update the test takes them after four minutes of traffic;
// without it the test compares the headings of each page with those of the pictures.
func TestPictures(t *testing.T) {
	s := start(t, rules)
	var now struct{ Document string }
	tag := s.answer("/v1/rules", &now)
	s.call(http.MethodPut, "/v1/rules", fmt.Sprintf(`{"document":%q,"why":"logins: ten a second, and a limit per minute on trial"}`, pictured), "If-Match", tag)
	s.becomes("/login", "ann", http.StatusOK)
	s.traffic("/login", "ann", "bob", "carol", "dave", "eve")
	s.traffic("/v1/orders", "ann", "shop-17", "shop-18")
	s.shows("/", "Top keys")
	s.Click("15 min")
	if golden.Writes() {
		time.Sleep(4 * time.Minute) // the history has keys by the minute
	}
	headings := ""
	for _, p := range shown {
		s.Size(p.width, 1000, false)
		s.shows(p.page, p.text)
		if golden.Writes() {
			time.Sleep(10 * time.Second) // what is shown is of the last seconds
		}
		headings += p.name + ": " + browser.Eval[string](s.Browser, outline) + "\n"
		if golden.Writes() {
			file := filepath.Join(proc.Root(t), "docs", "dashboard-"+p.name+".png")
			fatal.If(t, os.WriteFile(file, s.Picture(), 0o644))
		}
	}
	golden.Same(t, "testdata/pictures.txt", headings)
	s.well("pictures")
}

// pictured are rules with something to see: one that rejects, one that would, and one with room.
const pictured = `rules:
  - name: login                       # attempts of one user
    match: { path: /login }
    key: [{ header: x-user, else: client_ip }]
    limit: 10/1s
    algorithm: fixed_window
    on_failure: local
  - name: login-per-minute            # on trial: what would it reject?
    mode: shadow
    match: { path: /login }
    key: [{ header: x-user }]
    limit: 300/1m
  - name: api
    match: { path: { prefix: /v1/ } }
    key: [{ header: x-user, else: client_ip }]
    limit: 2000/1m
tests:
  - name: ten a second
    request: { url: /login, headers: { x-user: ann } }
    steps:
      - { repeat: 10x, expect: { allowed: login } }
      - { expect: { denied: login } }
`
