package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/admin/access"
)

func get(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestHandler(t *testing.T) {
	ready := new(Readiness)
	version := ""
	h := Handler(Config{
		Ready:   ready,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("weir 1\n")) }),
		Rules:   func() (string, []byte) { return version, []byte(`{"rules":[]}`) },
		State:   func() (uint64, string) { return 7, "newer ones: <wrong>" },
	})
	if code, body := get(h, "/rules"); code != 503 {
		t.Errorf("/rules before there are any: %d %s", code, body)
	}
	version = "v1"
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": "weir 1", "/rules": `"version":"v1"`} {
		if code, body := get(h, path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, body := get(h, "/rules")
	if want := `{"version":"v1","revision":7,"error":"newer ones: <wrong>","rules":{"rules":[]}}` + "\n"; body != want || !json.Valid([]byte(body)) {
		t.Errorf("/rules: %s, want %s", body, want)
	}
	ready.Refuse("two replicas")
	ready.Refuse("draining")
	ready.Refuse("draining")
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
	if code, _ := get(Handler(Config{Ready: ready, Metrics: http.NotFoundHandler(), Pprof: true}), "/debug/pprof/"); code != 200 {
		t.Errorf("profiles: %d", code)
	}
}

// A process has started once it has been ready, and not before; nothing takes that back.
func TestStarted(t *testing.T) {
	ready := new(Readiness)
	h := Handler(Config{Ready: ready, Metrics: http.NotFoundHandler()})
	ready.Refuse("no redis")
	ready.Refuse("no rules")
	ready.Allow("no redis")
	if code, body := get(h, "/startedz"); code != 503 || body != "not ready: no rules\n" {
		t.Errorf("/startedz before it was ready: %d %s", code, body)
	}
	ready.Allow("no rules")
	ready.Refuse("undecided")
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
	ready.Refuse("one")
	for i := range got {
		ready.Notify(func(ready bool) { got[i] += map[bool]string{true: "+", false: "-"}[ready] })
	}
	ready.Refuse("two")
	ready.Allow("one")
	ready.Allow("two")
	ready.Refuse("three")
	if got != [2]string{"---+-", "---+-"} {
		t.Errorf("notified of %s", got)
	}
}

// A region is declared dead by POST alone, where there are regions.
func TestForget(t *testing.T) {
	forgotten := ""
	c := Config{Ready: new(Readiness), Metrics: http.NotFoundHandler()}
	post := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		Handler(c).ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	if code, _ := post(http.MethodPost, "/regions/eu/dead"); code != 404 {
		t.Errorf("without regions: %d", code)
	}
	c.Forget = func(_ context.Context, region string) error {
		if forgotten = region; region == "us" {
			return errors.New("it called just now")
		}
		return nil
	}
	if code, body := post(http.MethodPost, "/regions/eu/dead"); code != 200 || forgotten != "eu" {
		t.Errorf("%d %s, %q", code, body, forgotten)
	}
	if code, body := post(http.MethodPost, "/regions/us/dead"); code != 409 || !strings.Contains(body, "just now") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := post(http.MethodGet, "/regions/eu/dead"); code != 405 {
		t.Errorf("GET: %d", code)
	}
}

// With a guard, rules, regions and profiles need a role, and health and metrics do not. What is below /v1/ is the API's.
func TestRoles(t *testing.T) {
	needed := access.Role(0)
	h := Handler(Config{
		Ready: new(Readiness), Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Pprof: true,
		Forget: func(context.Context, string) error { return nil },
		API:    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		Guard: func(least access.Role, _ http.Handler) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { needed = least })
		},
	})
	for call, want := range map[string]access.Role{
		"GET /healthz": 0, "GET /readyz": 0, "GET /startedz": 0, "GET /metrics": 0, "GET /rules": access.Viewer,
		"POST /regions/eu/dead": access.Admin, "GET /debug/pprof/": access.Admin, "GET /debug/pprof/profile": access.Admin, "GET /debug/pprof/heap": access.Admin,
	} {
		needed = 0
		method, path, _ := strings.Cut(call, " ")
		if h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil)); needed != want {
			t.Errorf("%s needs the role %v, want %v", call, needed, want)
		}
	}
	if code, _ := get(h, "/v1/rules"); code != http.StatusTeapot {
		t.Errorf("/v1/rules: %d", code)
	}
}
