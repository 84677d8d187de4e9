package daemon

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// TestOpenAPI: docs/openapi.yaml describes all operations, and is what is served. go generate writes it.
func TestOpenAPI(t *testing.T) {
	made := fatal.Get(New(testConfig(), Program{Name: "test"}, slog.New(slog.DiscardHandler)))(t)
	answer, call := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/openapi.yaml", nil)
	call.Host = "localhost"
	made.operators.ServeHTTP(answer, call)
	if answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	golden.Same(t, filepath.Join(proc.Root(t), "docs/openapi.yaml"), "# Generated from internal/admin: do not edit. docs/api.md explains it.\n"+answer.Body.String())
}

// asks returns the status of a path, once the port answers, and what it answers.
func asks(t *testing.T, c *http.Client, url string) (status int, text string) {
	t.Helper()
	proc.Await(t, time.Minute, url, func() string {
		answer, err := c.Get(url)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return err.Error()
		}
		status, text = answer.StatusCode, string(body)
		return ""
	})
	return status, text
}

// A port that others can reach and that has no TLS has health, metrics and the page, and no API and no profiles. It has the
// API for those on its machine, if that is wanted.
func TestAdminClosed(t *testing.T) {
	for _, local := range []bool{false, true} {
		cfg := testConfig()
		_, port, _ := net.SplitHostPort(proc.FreeAddr(t))
		cfg.AdminListen, cfg.Pprof, cfg.Admin.Local = ":"+port, true, local
		log := new(lines)
		runBeside(t, cfg, Program{Name: "test"}, slog.New(slog.NewTextHandler(log, nil)))
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 200, "/v1/rules": 403, "/v1/openapi.yaml": 403, "/v1/nothing": 403, "/debug/pprof/profile": 403} {
			if local && path != "/v1/rules" {
				continue
			} else if local {
				want = 200
			}
			if status, text := asks(t, http.DefaultClient, "http://127.0.0.1:"+port+path); status != want || want == 403 && !strings.Contains(text, v1.CodeNotServed) {
				t.Errorf("local %v: %s: %d %s, want %d", local, path, status, text, want)
			}
		}
		if n := len(log.with("the admin API is closed")); !local && n != 1 {
			t.Errorf("the log states it %d times", n)
		}
	}
}

// With TLS, a token or a certificate opens the API, and health is for everybody.
func TestAdminSecure(t *testing.T) {
	dir := t.TempDir()
	a, err := pki.NewAuthority()
	if err == nil {
		err = errors.Join(a.Write(dir, "server", "127.0.0.1"), a.Write(dir, "ci", "weir://ci"), a.Write(dir, "other", "weir://other"), os.WriteFile(filepath.Join(dir, "ca.pem"), a.PEM, 0o600))
	}
	fatal.If(t, err)
	file := func(name string) string { return filepath.Join(dir, name) }
	token, sum := access.NewToken()
	cfg := testConfig()
	_, port, _ := net.SplitHostPort(proc.FreeAddr(t))
	cfg.AdminListen, cfg.Pprof = ":"+port, true
	cfg.Admin = admin.Settings{
		TLSCert: file("server.pem"), TLSKey: file("server.key"), TLSClientCA: file("ca.pem"),
		Tokens: proc.WriteFile(t, file("tokens.yaml"), fmt.Sprintf("tokens: [{ name: ann, role: admin, sha256: %q }]\nclients: [{ name: ci, role: viewer, san: 'weir://ci' }]\n", sum)),
	}
	runBeside(t, cfg, Program{Name: "test"}, slog.New(slog.DiscardHandler))
	anybody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it is a test's

	// It serves from here on.
	asks(t, anybody, "https://127.0.0.1:"+port+"/healthz")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/v1/rules": 401, "/debug/pprof/": 401} {
		if status, text := asks(t, anybody, "https://127.0.0.1:"+port+path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}

	t.Setenv("XDG_CONFIG_HOME", dir)
	fatal.If(t, os.Mkdir(file("weir"), 0o700))
	contexts := ""
	for name, more := range map[string]string{
		"ann": "token_file: ann", "wrong": "token_file: wrong", "nobody": "", "ci": "cert: ../ci.pem, key: ../ci.key", "other": "cert: ../other.pem, key: ../other.key",
	} {
		contexts += fmt.Sprintf("- { name: %s, url: 'https://127.0.0.1:%s', ca: ../ca.pem, %s }\n", name, port, more)
		proc.WriteFile(t, file("weir/"+name), map[string]string{"ann": token, "wrong": "weir_wrong"}[name])
	}
	contexts += fmt.Sprintf("- { name: distrust, url: 'https://127.0.0.1:%s', token_file: ann }\n", port)
	proc.WriteFile(t, file("weir/contexts.yaml"), "contexts:\n"+contexts)
	for name, want := range map[string]string{
		"ann": "", "ci": "", "wrong": v1.CodeNobody, "nobody": v1.CodeNobody, "other": v1.CodeForbidden, "distrust": "unknown authority",
	} {
		c, err := client.Open(name, "")
		fatal.If(t, err)
		var rules v1.Rules
		_, err = c.Do(t.Context(), client.Call{Path: "/v1/rules"}, &rules)
		if p := new(v1.Problem); errors.As(err, &p) {
			err = errors.New(p.Code)
		}
		if want == "" && (err != nil || rules.Source != "none" || rules.InForce.Version == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v, want %q", name, rules, err, want)
		}
	}

	c := fatal.Get(client.Open("ann", ""))(t)
	_, err = c.Do(t.Context(), client.Call{Method: http.MethodPost, Path: "/v1/regions:forget", Body: v1.Region{Region: "eu"}}, nil)
	if p := new(v1.Problem); !errors.As(err, &p) || p.Code != v1.CodeRegion || !strings.Contains(p.Detail, "no region of this name") {
		t.Errorf("a region that there is not: %v", err)
	}
	proc.WriteFile(t, cfg.Admin.Tokens, "tokens: []\n")
	proc.Await(t, time.Minute, "the end of a token that was taken out", func() string {
		_, err := c.Do(t.Context(), client.Call{Path: "/v1/rules"}, nil)
		if p := new(v1.Problem); !errors.As(err, &p) || p.Code != v1.CodeNobody {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// Where one process keeps the rules, they are changed through its API: an override is in force within a second, and the
// counter of its key has the limit.
func TestAdminStore(t *testing.T) {
	cfg := storing(t, t.TempDir(), "state")
	cfg.AdminListen = proc.FreeAddr(t)
	runBeside(t, cfg, Program{Name: "weir-test", AggregatorCalls: &AggregatorCalls{Region: "eu"}}, slog.New(slog.DiscardHandler))
	asks(t, http.DefaultClient, "http://"+cfg.AdminListen+"/healthz")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	c := fatal.Get(client.Open("", cfg.AdminListen))(t)
	do := func(method, path, ifMatch string, body, into any) {
		t.Helper()
		if _, err := c.Do(t.Context(), client.Call{Method: method, Path: path, IfMatch: ifMatch, Body: body}, into); err != nil {
			t.Fatal(err)
		}
	}
	document := "rules: [{ name: a, key: [{ header: x-user }], limit: 5/1m, match: { region: eu } }]\n"
	do(http.MethodPut, "/v1/rules", `"0"`, v1.Change{Document: document, Why: "begin"}, nil)
	override := amend.Amendment{Rule: "a", Key: []string{"acme"}, Limit: []byte(`"50/1m"`), Until: time.Now().Add(time.Hour), Why: "test"}
	do(http.MethodPut, "/v1/overrides", "", override, nil)
	began := time.Now()
	proc.Await(t, time.Minute, "the override", func() string {
		var got v1.Explanation
		q := v1.Request{URL: "/", Headers: map[string]string{"X-User": "acme"}}
		if _, err := c.Do(t.Context(), client.Call{Method: http.MethodPost, Path: "/v1/explain", Body: q}, &got); err != nil {
			return err.Error()
		}
		if len(got.Rules) != 1 || !got.Rules[0].Applies || got.Rules[0].Counters[0].Limit != 50 || !got.Rules[0].Counters[0].OwnLimit {
			return fmt.Sprintf("%+v", got)
		}
		return ""
	})
	t.Logf("in force after %v", time.Since(began))
	var rules v1.Rules
	if do(http.MethodGet, "/v1/rules", "", nil, &rules); rules.Source != "store" || rules.Document != document || rules.InForce.Revision != rules.Version.Revision {
		t.Errorf("%+v", rules)
	}
	var audit v1.Audit
	if do(http.MethodGet, "/v1/audit", "", nil, &audit); len(audit.Items) != 2 || audit.Items[0].What != "override.set" {
		t.Errorf("%+v", audit)
	}
}
