package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// inHome runs the program with a directory of configuration. It returns what was printed, to both.
func inHome(t *testing.T, dir string, status int, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir)
	out, _ := cmd.CombinedOutput() // the status is looked at
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("weir %q: exit status %d, want %d\n%s", args, got, status, out)
	}
	return string(out)
}

// What is printed of a token is an item of the file of tokens, and the token itself, which is in no other place.
func TestToken(t *testing.T) {
	out := inHome(t, t.TempDir(), 0, "token", "ann@example.com", "--role", "operator", "--prefix", "team-", "--until", "2100-01-31T00:00:00Z")
	token, rest, _ := strings.Cut(out, "\n")
	if strings.Contains(rest, token) {
		t.Errorf("the token is printed twice: %s", out)
	}
	l, w := access.Watch(proc.WriteFile(t, filepath.Join(t.TempDir(), "tokens.yaml"), "tokens:\n"+rest), slog.New(slog.DiscardHandler), telemetry.NewRegistry("test"))
	if err := w.Load(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if c, ok := l.Token(token); !ok || c.Name != "ann@example.com" || c.Role != access.Operator || c.Prefix != "team-" || c.Until.Year() != 2100 {
		t.Errorf("%+v, %v, of\n%s", c, ok, out)
	}
}

// Each command calls the one that is named, or the current one.
func TestContexts(t *testing.T) {
	forgotten := make(chan string, 1)
	installation := func(name, token string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Header.Get("Authorization") != "Bearer "+token:
				t.Errorf("%s was called with %q", name, r.Header.Get("Authorization"))
			case r.URL.Path == "/v1/audit":
				_, _ = w.Write([]byte(`{"items":[{"id":"7-x","when":"2026-11-26T10:00:00Z","who":"` + name + `","role":"admin","what":"rules.apply","why":"two\nlines <b>"}]}`))
			default:
				forgotten <- name
				w.WriteHeader(http.StatusNoContent)
			}
		}))
	}
	prod, test := installation("prod", "weir_one"), installation("test", "weir_two")
	defer prod.Close()
	defer test.Close()
	dir := t.TempDir()
	fatal.If(t, os.Mkdir(filepath.Join(dir, "weir"), 0o700))
	proc.WriteFile(t, filepath.Join(dir, "weir/contexts.yaml"), "current: prod\ncontexts:\n- { name: prod, url: '"+prod.URL+"', token_file: prod.token }\n- { name: test, url: '"+test.URL+"', token_file: test.token }\n")
	proc.WriteFile(t, filepath.Join(dir, "weir/prod.token"), "weir_one\n")
	proc.WriteFile(t, filepath.Join(dir, "weir/test.token"), "weir_two\n")
	for want, args := range map[string][]string{
		"2026-11-26 10:00:00  prod  rules.apply": {"audit"},
		"2026-11-26 10:00:00  test  rules.apply": {"audit", "--context", "test"},
		`two\x0alines <b>`:                       {"audit"},
		`"why": "two\nlines <b>"`:                {"audit", "-o", "json"},
		"nothing is withheld for region eu":      {"forget-region", "eu", "--context", "test"},
	} {
		if out := inHome(t, dir, 0, args...); !strings.Contains(out, want) {
			t.Errorf("weir %q printed\n%s\nwithout %q", args, out, want)
		}
	}
	if name := <-forgotten; name != "test" {
		t.Errorf("%s has forgotten the region", name)
	}
	t.Setenv("WEIR_CONTEXT", "test")
	if out := inHome(t, dir, 0, "audit"); !strings.Contains(out, "test  rules.apply") {
		t.Errorf("%s", out)
	}
	t.Setenv("WEIR_CONTEXT", "")
	if out := inHome(t, dir, 1, "audit", "--context", "prd"); !strings.Contains(out, "it has prod, test") {
		t.Errorf("%s", out)
	}
	prod.Close()
	if out := inHome(t, dir, 1, "audit"); !strings.Contains(out, "prod does not answer") || strings.Contains(out, "weir_") {
		t.Errorf("%s", out)
	}
}

// Every command that reads an installation prints tables, wide ones and JSON, and says so in the same words.
func TestOutput(t *testing.T) {
	parser, err := kong.New(new(commands), kong.Vars{"version": "test"})
	fatal.If(t, err)
	var found []string
	for _, leaf := range parser.Model.Leaves(false) {
		for _, f := range leaf.Flags {
			if f.Name == "output" && f.Short == 'o' && f.Enum == "table,wide,json" && f.Default == "table" {
				found = append(found, leaf.Path())
			}
		}
	}
	slices.Sort(found)
	want := "analyze audit candidate list explain history override list peek reset status tap top"
	if got := strings.Join(found, " "); strings.ReplaceAll(got, "weir ", "") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
