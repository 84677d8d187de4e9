package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/test/kit/apitest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// TestOpenAPI: docs/openapi.yaml describes all operations, and is what is served. go generate writes it.
func TestOpenAPI(t *testing.T) {
	made := fatal.Get(New(testConfig(), Program{Name: "test"}, quiet))(t)
	answer := apitest.Call(t.Context(), made.operators, http.MethodGet, "/v1/openapi.yaml", nil)
	if answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	golden.Same(t, filepath.Join(proc.Root(t), "docs/openapi.yaml"), "# Generated from internal/admin: do not edit. docs/api.md explains it.\n"+answer.Body.String())
}

// asks returns the status of a path, once the port answers, and what it answers. Headers come in pairs of name and value.
func asks(t *testing.T, c *http.Client, url string, headers ...string) (status int, text string) {
	t.Helper()
	proc.Await(t, time.Minute, url, func() string {
		answer, body, err := page.Get(t.Context(), c, url, headers...)
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
		cfg, log := testConfig(), new(proc.Lines)
		cfg.AdminListen, cfg.Pprof, cfg.Admin.Local = ":0", true, local
		made := fatal.Get(New(cfg, Program{Name: "test"}, slog.New(slog.NewTextHandler(log, nil))))(t)
		closed := 403
		if local {
			closed = 200
		}
		here := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		for path, want := range map[string]int{
			"/healthz": 200, "/metrics": 200, "/": 200, "/v1/rules": closed, "/v1/openapi.yaml": closed, "/debug/pprof/": closed,
		} {
			answer := apitest.Call(here, made.operators, http.MethodGet, path, nil)
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
		var headers []string
		if token != "" {
			headers = []string{"Authorization", "Bearer " + token}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
		return asks(t, client, "https://"+cfg.AdminListen+path, headers...)
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
