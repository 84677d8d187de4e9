package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/browser"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Without a valid token the page shows the reason and no data. With one it shows the name and the role, and rejects what the role does not allow.
func TestLogin(t *testing.T) {
	k := newKeys(t)
	s := start(t, rules, k)
	s.shows("/#/fleet", "this needs a token")
	s.logIn("weir_wrong")
	s.See("no such token")
	s.Press("\x1b")
	s.Press("\x1b")
	s.logIn("☃ ") // no header has it
	s.See("this needs a token")
	s.logIn(k.tokens["former"])
	s.See("the token of former ended at")
	s.Lose("begin") // the reason of the first version
	s.logIn(" " + k.tokens["viewer"] + "\u200b\n")
	s.See("applied rules") // in the audit log, which was rejected before
	s.Lose("The token stays in this tab.")
	s.See("viewer (viewer)")
	s.shows("/#/edit/orders", "No mistakes.")
	s.because("mine", "Apply", "viewer is viewer, and this needs the role admin")
	s.well("the login", "401", "403")

	kept := browser.Eval[string](s.Browser, `JSON.stringify({ ...sessionStorage })`)
	if want := fmt.Sprintf(`{"weir-token":%q}`, k.tokens["viewer"]); kept != want {
		t.Errorf("the tab keeps %s, want %s", kept, want)
	}
	elsewhere := browser.Eval[string](s.Browser, `[document.cookie, JSON.stringify({ ...localStorage }), JSON.stringify(history.state), location.href,
		...performance.getEntries().map(e => e.name), document.documentElement.outerHTML].join("\n")`)
	if strings.Contains(elsewhere, k.tokens["viewer"]) || !strings.Contains(elsewhere, "/v1/stream") {
		t.Errorf("the token is elsewhere, too: %s", elsewhere)
	}

	s.Click("Log out")
	s.See("this needs a token")
	s.Lose("begin")
	if kept := browser.Eval[string](s.Browser, `JSON.stringify({ ...sessionStorage })`); kept != "{}" {
		t.Errorf("after logging out the tab keeps %s", kept)
	}
	s.well("logging out", "401", "403")
}

// A token that is taken away, or ends, while one types: what was typed stays, one logs in over it, and applies it.
func TestTokenEndsWhileOneTypes(t *testing.T) {
	k := newKeys(t)
	s := start(t, rules, k)
	s.Open("/#/edit/orders")
	s.logIn(k.tokens["admin"])
	s.See("No mistakes.")
	s.write(strings.Replace(s.typed(), "20/1s", "40/1s", 1))
	k.revoke("admin")
	s.See("no such token")
	s.again("brief")
	s.still("40/1s")
	s.apply("more")
	s.write(strings.Replace(s.typed(), "40/1s", "50/1s", 1))
	k.end("brief")
	s.See("the token of brief ended at")
	s.again("admin")
	s.still("50/1s")
	s.apply("still more")
	proc.Eventually(s, 5*time.Second, "what was typed is applied", func() bool { // the page says still that the first one was
		var now struct{ Document string }
		s.answer("/v1/rules", &now)
		return strings.Contains(now.Document, "50/1s")
	})
	s.well("tokens that end", "401", "403")
}

// again logs in with a new token, over what one does.
func (s *system) again(name string) {
	s.Helper()
	s.Press("\x1b") // which closes no login
	s.Press("\x1b")
	k := s.keys
	k.add(name, "admin", time.Now().Add(time.Hour))
	proc.Eventually(s, 10*time.Second, "the token is known", func() bool {
		answer, err := stack.Do(s.region.Admin, http.MethodGet, "/v1/rules", "", "Authorization", "Bearer "+k.tokens[name])
		return err == nil && answer.Status == http.StatusOK
	})
	s.logIn(k.tokens[name])
	s.Lose("The token stays in this tab.")
	s.Ready(`document.activeElement.matches(".editor")`) // one types on
}

// still fails the test if the editor has not a text.
func (s *system) still(text string) {
	s.Helper()
	if typed := s.typed(); !strings.Contains(typed, text) {
		s.Errorf("what was typed is gone: %s", typed)
	}
}
