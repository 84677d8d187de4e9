package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

const secret = "weir_secret"

// home makes a directory of configuration with this file of contexts, and a file secret with a token.
func home(t *testing.T, text string) (dir string) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	path := fatal.Get(path())(t)
	dir = filepath.Dir(path)
	proc.WriteFile(t, path, text)
	proc.WriteFile(t, filepath.Join(dir, "secret"), secret+"\n")
	return dir
}

// A context has where to call, as whom, and whom to trust.
func TestContexts(t *testing.T) {
	t.Setenv("HOME", "")
	for _, dir := range []string{"", t.TempDir()} { // no home, and no file in it
		t.Setenv("XDG_CONFIG_HOME", dir)
		if f, err := Load(); err != nil || len(f.Contexts) != 1 || f.Contexts[0] != local {
			t.Errorf("without a file in %q: %+v, %v", dir, f, err)
		}
	}
	dir := home(t, `
current: prod
contexts:
- { name: prod, url: "https://weir.example.com:8090", token_file: prod.token, ca: /etc/ca.pem }
- { name: test, url: "http://127.0.0.1:8090", token_file: /secret }
`)
	f := fatal.Get(Load())(t)
	prod, err := f.Find("")
	if err != nil || prod.Name != "prod" || prod.TokenFile != filepath.Join(dir, "prod.token") || prod.CA != "/etc/ca.pem" {
		t.Errorf("%+v, %v", prod, err)
	}
	if test, err := f.Find("test"); err != nil || test.TokenFile != "/secret" {
		t.Errorf("%+v, %v", test, err)
	}
	if _, err := f.Find("prd"); err == nil || !strings.Contains(err.Error(), "it has prod, test") {
		t.Errorf("%v", err)
	}
}

// Each mistake in the file is told, without a token. A semicolon ends a line of the file.
func TestMistakes(t *testing.T) {
	golden.Lines(t, "testdata/mistakes.golden", func(text string) string {
		dir := home(t, strings.ReplaceAll(text, "; ", "\n"))
		_, err := Open("", "")
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Fatalf("%s: %v", text, err)
		}
		return strings.ReplaceAll(err.Error(), dir, "DIR")
	})
	for _, wrong := range []string{"127.0.0.1", "http://127.0.0.1:1", "127.0.0.1:1/v1"} {
		if _, err := Open("", wrong); err == nil || !strings.Contains(err.Error(), "must be HOST:PORT") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// A call has the token and the condition, and its problem is the error.
func TestCall(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+secret {
			t.Errorf("token: %q", got)
		}
		switch r.URL.Path {
		case "/v1/rules":
			if r.Method != http.MethodPut || r.Header.Get("If-Match") != `"7"` || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %v", r.Method, r.Header)
			}
			w.Header().Set("ETag", `"8"`)
			_, _ = w.Write([]byte(`{"before":7}`))
		case "/v1/away":
			w.Header().Set("Content-Type", v1.ProblemType)
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"status":503,"code":"store","detail":"consul is away","findings":[{"file":"f","line":3,"reason":"wrong"}]}`))
		case "/v1/elsewhere":
			http.Redirect(w, r, "/v1/rules", http.StatusFound)
		default:
			http.Error(w, "no API here.\nBut a page", 404)
		}
	}))
	defer server.Close()
	home(t, "contexts: [{ name: a, url: '"+server.URL+"/', token_file: secret }]")
	c := fatal.Get(Open("a", ""))(t)
	var applied v1.Applied
	etag, err := c.Do(t.Context(), Call{Method: http.MethodPut, Path: "/v1/rules", IfMatch: `"7"`, Body: v1.Change{Document: "x"}}, &applied)
	if err != nil || etag != `"8"` || applied.Before != 7 {
		t.Errorf("%s, %+v, %v", etag, applied, err)
	}
	_, err = c.Do(t.Context(), Call{Path: "/v1/away"}, nil)
	if p := new(v1.Problem); !errors.As(err, &p) || p.Code != v1.CodeStore || err.Error() != "a: consul is away\nf:3: wrong" {
		t.Errorf("%v", err)
	}
	for path, want := range map[string]string{"/none": "GET /none: 404 Not Found: no API here; is that", "/v1/elsewhere": "302"} {
		if _, err = c.Do(t.Context(), Call{Path: path}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	server.Close()
	if _, err = c.Do(t.Context(), Call{Path: "/v1/rules"}, nil); err == nil || !strings.Contains(err.Error(), "a does not answer") || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}

// Events come one by one, with their names, and the end of a stream is told apart from that of the caller.
func TestEvents(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("tap") != "true" {
			w.Header().Set("Content-Type", v1.ProblemType)
			w.WriteHeader(429)
			_, _ = w.Write([]byte(`{"status":429,"code":"too-many-calls","detail":"ann has 10 streams"}`))
			return
		}
		_, _ = w.Write([]byte("event: status\ndata: {\"of\": \"event: x\"}\n\n: a comment\nevent: top\ndata: \"" + large + "\"\n\n"))
	}))
	defer server.Close()
	home(t, "contexts: [{ name: a, url: '"+server.URL+"' }]")
	c := fatal.Get(Open("a", ""))(t)
	var got []string
	keep := func(event string, data []byte) error { got = append(got, event, string(data)); return nil }
	err := c.Events(t.Context(), "/v1/stream?tap=true", keep)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "a has ended the stream") || !slices.Equal(got, []string{"status", `{"of": "event: x"}`, "top", `"` + large + `"`}) {
		t.Errorf("%v, %.200q", err, got)
	}
	enough := errors.New("enough")
	if err = c.Events(t.Context(), "/v1/stream?tap=true", func(string, []byte) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if err = c.Events(t.Context(), "/v1/stream", keep); err == nil || !strings.Contains(err.Error(), "a: ann has 10 streams") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err = c.Events(ctx, "/v1/stream?tap=true", func(string, []byte) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
