package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// TestOpenAPI: docs/openapi.yaml describes all operations, and is what is served. go generate writes it.
func TestOpenAPI(t *testing.T) {
	made := fatal.Get(New(testConfig(), Program{Name: "test"}, quiet))(t)
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
	_, port, _ := net.SplitHostPort(proc.FreeAddr(t))
	for _, local := range []bool{false, true} {
		cfg, log := testConfig(), new(proc.Lines)
		cfg.AdminListen, cfg.Pprof, cfg.Admin.Local = ":"+port, true, local
		made := fatal.Get(New(cfg, Program{Name: "test"}, slog.New(slog.NewTextHandler(log, nil))))(t)
		closed, noRegion := 403, 403
		if local {
			closed, noRegion = 200, 409
		}
		for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/": 200, "/v1/rules": closed, "/v1/openapi.yaml": closed, "/debug/pprof/": closed, "/v1/regions:forget": noRegion} {
			answer, call := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
			if path == "/v1/regions:forget" {
				call = httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"region": "eu"}`)) // there is none of this name
			}
			call.Host, call.RemoteAddr = "localhost", "127.0.0.1:1"
			here := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			made.operators.ServeHTTP(answer, call.WithContext(here))
			if answer.Code != want || want == 403 && !strings.Contains(answer.Body.String(), v1.CodeNotServed) {
				t.Errorf("local %v: %s: %d %s, want %d", local, path, answer.Code, answer.Body, want)
			}
		}
		if n := len(log.With("the admin API is closed")); (n == 1) == local {
			t.Errorf("local %v: the log states it %d times", local, n)
		}
	}
}

// With TLS, a token or a certificate opens the API, and health is for everybody.
func TestAdminSecure(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	a := pki.NewAuthority()
	fatal.If(t, a.Write(dir, "server", "127.0.0.1"))
	token, sum := access.NewToken()
	cfg := testConfig()
	cfg.AdminListen, cfg.Pprof = proc.FreeAddr(t), true
	cfg.Admin = admin.Settings{
		TLS:    certs.Port{Cert: file("server.pem"), Key: file("server.key"), ClientCA: file("ca.pem")},
		Tokens: proc.WriteFile(t, file("tokens.yaml"), fmt.Sprintf("tokens: [{ name: ann, role: admin, sha256: %q }]\nclients: [{ name: ci, role: viewer, san: 'weir://ci' }]\n", sum)),
	}
	runBeside(t, cfg, Program{Name: "test"}, quiet)
	call := func(token, cert, path string) (status int, text string) {
		secure := a.Client()
		if cert != "" {
			secure = a.Client("weir://" + cert)
		}
		return asks(t, &http.Client{Transport: withToken{&http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}, token}}, "https://"+cfg.AdminListen+path)
	}
	for _, c := range []struct {
		token, cert, path string
		want              int
	}{
		{"", "", "/healthz", 200}, {"", "", "/readyz", 200}, {"", "", "/metrics", 200}, {"", "", "/v1/rules", 401}, {"", "", "/debug/pprof/", 401},
		{token, "", "/v1/rules", 200}, {"weir_wrong", "", "/v1/rules", 401}, {"", "ci", "/v1/rules", 200}, {"", "other", "/v1/rules", 403},
		{token, "", "/debug/pprof/", 200}, {"", "ci", "/debug/pprof/", 403},
	} {
		if status, text := call(c.token, c.cert, c.path); status != c.want {
			t.Errorf("token %.8q, certificate %q: %s: %d %s, want %d", c.token, c.cert, c.path, status, text, c.want)
		}
	}
	proc.WriteFile(t, cfg.Admin.Tokens, "tokens: []\n")
	proc.Await(t, time.Minute, "the end of a token that was taken out", func() string {
		if status, _ := call(token, "", "/v1/rules"); status != 401 {
			return fmt.Sprint(status)
		}
		return ""
	})
}

// withToken adds a token to calls.
type withToken struct {
	http.RoundTripper
	token string
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	return w.RoundTripper.RoundTrip(r)
}
