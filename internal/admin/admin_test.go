package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestHandler(t *testing.T) {
	ready := new(Readiness)
	h := Handler(Config{
		Ready:   ready,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("weir 1\n")) }),
		API:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("an answer of the API\n")) }),
	})
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": "weir 1", "/v1/rules": "of the API"} {
		if code, body := get(h, path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	ready.Block("two replicas")
	ready.Block("draining")
	ready.Block("draining")
	if code, body := get(h, "/readyz"); code != 503 || body != "not ready: two replicas\nnot ready: draining\n" {
		t.Errorf("/readyz with two reasons: %d %s", code, body)
	}
	if code, _ := get(h, "/healthz"); code != 200 {
		t.Errorf("/healthz follows readiness: %d", code)
	}
	ready.Allow("two replicas")
	ready.Allow("draining")
	if code, _ := get(h, "/readyz"); code != 200 {
		t.Errorf("/readyz when the reasons are gone: %d", code)
	}
	if code, _ := get(h, "/debug/pprof/"); code != 404 {
		t.Errorf("profiles without being asked for: %d", code)
	}
	if code, _ := get(Handler(Config{Ready: ready, Metrics: http.NotFoundHandler(), Profiles: Profiles()}), "/debug/pprof/"); code != 200 {
		t.Errorf("profiles: %d", code)
	}
}

// A process has started once it has been ready, and not before; nothing takes that back.
func TestStarted(t *testing.T) {
	ready := new(Readiness)
	h := Handler(Config{Ready: ready, Metrics: http.NotFoundHandler()})
	ready.Block("no redis")
	ready.Block("no rules")
	ready.Allow("no redis")
	if code, body := get(h, "/startedz"); code != 503 || body != "not ready: no rules\n" {
		t.Errorf("/startedz before it was ready: %d %s", code, body)
	}
	ready.Allow("no rules")
	ready.Block("undecided")
	for path, want := range map[string]int{"/startedz": 200, "/readyz": 503} {
		if code, body := get(h, path); code != want {
			t.Errorf("%s after it was ready: %d %s, want %d", path, code, body, want)
		}
	}
	if code, _ := get(Handler(Config{Ready: new(Readiness), Metrics: http.NotFoundHandler()}), "/startedz"); code != 200 {
		t.Errorf("/startedz of one that was ready at once: %d", code)
	}
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
