package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/admin"
)

// Callers learn on the same port whether to call, and are answered in any case.
func TestHealth(t *testing.T) {
	ready := new(admin.Readiness)
	h := NewHealth(ready, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	check := func(when string, status int, has string, leaving bool) {
		t.Helper()
		health, call := httptest.NewRecorder(), httptest.NewRecorder()
		h.ServeHTTP(health, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		h.ServeHTTP(call, httptest.NewRequest(http.MethodPost, "/call", nil))
		if health.Code != status || !strings.Contains(health.Body.String(), has) {
			t.Errorf("%s: /healthz: %d %q, want %d with %q", when, health.Code, health.Body, status, has)
		}
		if leaves := call.Header().Get(immediateFail) != ""; call.Code != http.StatusTeapot || leaves != leaving {
			t.Errorf("%s: a call: %d, sent elsewhere: %v, want %v", when, call.Code, leaves, leaving)
		}
	}
	check("at first", 200, "ok", false)
	ready.Block("no store")
	check("not ready", 503, "no store", false)
	ready.Allow("no store")
	check("ready again", 200, "ok", false)
	h.Drain()
	check("draining", 503, "draining", true)
}
