package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// answers checks what a handler answers to a path; any text if none is given.
func answers(t *testing.T, h http.Handler, path string, status int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != status || text != "" && w.Body.String() != text {
		t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, status, text)
	}
}

func TestHandler(t *testing.T) {
	ready := new(Readiness)
	h := Handler(Config{
		Ready:   ready,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("weir 1\n")) }),
		API:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("an answer of the API\n")) }),
	})
	answers(t, h, "/healthz", 200, "ok\n")
	answers(t, h, "/readyz", 200, "ready\n")
	answers(t, h, "/metrics", 200, "weir 1\n")
	answers(t, h, "/v1/rules", 200, "an answer of the API\n")
	ready.Block("two replicas")
	ready.Block("draining")
	ready.Block("draining")
	answers(t, h, "/readyz", 503, "not ready: two replicas\nnot ready: draining\n")
	answers(t, h, "/healthz", 200, "ok\n") // whether it is ready or not
	ready.Allow("two replicas")
	ready.Allow("draining")
	answers(t, h, "/readyz", 200, "ready\n")
	answers(t, h, "/debug/pprof/", 404, "") // nobody has asked for profiles
	h = Handler(Config{Ready: ready, Metrics: http.NotFoundHandler(), Profiles: Profiles()})
	answers(t, h, "/debug/pprof/", 200, "")
}

// A process has started once it has been ready, and not before; nothing takes that back.
func TestStarted(t *testing.T) {
	ready := new(Readiness)
	h := Handler(Config{Ready: ready, Metrics: http.NotFoundHandler()})
	ready.Block("no redis")
	ready.Block("no rules")
	ready.Allow("no redis")
	answers(t, h, "/startedz", 503, "not ready: no rules\n")
	ready.Allow("no rules")
	ready.Block("undecided")
	answers(t, h, "/startedz", 200, "started\n")
	answers(t, h, "/readyz", 503, "not ready: undecided\n")
	h = Handler(Config{Ready: new(Readiness), Metrics: http.NotFoundHandler()}) // ready at once
	answers(t, h, "/startedz", 200, "started\n")
}

// TestNotify: each subscriber is notified at once and of each change.
func TestNotify(t *testing.T) {
	ready, got := new(Readiness), [2]string{}
	ready.Block("one")
	for i := range got {
		ready.Notify(func(ready bool) { got[i] += map[bool]string{true: "+", false: "-"}[ready] })
	}
	ready.Block("two")
	ready.Allow("one")
	ready.Allow("two")
	ready.Block("three")
	if got != [2]string{"---+-", "---+-"} {
		t.Errorf("notified of %s", got)
	}
}
