package main

import (
	"encoding/json"
	"io"
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
	out := inHome(t, t.TempDir(), 0, "admin", "token", "ann@example.com", "--role", "operator", "--prefix", "team-", "--until", "2100-01-31T00:00:00Z")
	token, rest, _ := strings.Cut(out, "\n")
	if strings.Contains(rest, token) {
		t.Errorf("the token is printed twice: %s", out)
	}
	l, w := access.Watch(proc.WriteFile(t, filepath.Join(t.TempDir(), "tokens.yaml"), "tokens:\n"+rest), slog.New(slog.DiscardHandler), telemetry.NewRegistry("test"))
	if err := w.Load(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var made struct { // for programs
		Token string
		Item  tokenItem
	}
	text := inHome(t, t.TempDir(), 0, "admin", "token", "ann", "--role", "viewer", "--until", "2100-01-31T00:00", "-o", "json")
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Token == "" || made.Item.Name != "ann" || made.Item.Role != "viewer" || made.Item.Until.Year() != 2100 || len(made.Item.SHA256) != 64 {
		t.Errorf("%v, %+v of %s", err, made, text)
	}
	if c, ok := l.Token(token); !ok || c.Name != "ann@example.com" || c.Role != access.Operator || c.Prefix != "team-" || c.Until.Year() != 2100 {
		t.Errorf("%+v, %v, of\n%s", c, ok, out)
	}
}

// Every command that prints an answer prints it as text or as JSON, and says so in the same words. What is not in the list
// prints what it wrote, or passes on what it read.
func TestOutput(t *testing.T) {
	parser := fatal.Get(kong.New(new(commands), kong.Vars{"version": "test"}))(t)
	commandsWith := map[string][]string{} // by the values of -o
	for _, leaf := range parser.Model.Leaves(false) {
		as := ""
		for _, f := range leaf.Flags {
			if f.Name == "output" && f.Short == 'o' && f.Default == "text" {
				as = f.Enum
			}
			if f.Name == "format" {
				t.Errorf("%s has --format", leaf.Path())
			}
		}
		commandsWith[as] = append(commandsWith[as], strings.TrimPrefix(leaf.Path(), "weir "))
	}
	for as, want := range map[string]string{
		"text,wide,json": "admin audit, explain, keys candidate list, keys override list, keys peek, keys reset, " +
			"rules history, status, top",
		"": "admin bootstrap acl, admin bootstrap make, admin export-filter, admin forget-region, debug, healthcheck, help, " +
			"rules compile, rules convert, rules init",
	} {
		slices.Sort(commandsWith[as])
		if got := strings.Join(commandsWith[as], ", "); got != want {
			t.Errorf("-o %q: %s, want %s", as, got, want)
		}
	}
}

// What a program answers has its exit status, and why it fails is printed: its health, how all of it is, and whether a region is
// taken for dead.
func TestAnswers(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct {
		command, asked string
		answers        int
		text           string
		status         int
		want           string
	}{
		{"healthcheck http://ADDRESS/readyz", "GET /readyz ", 200, "", 0, ""},
		{"healthcheck http://ADDRESS/readyz", "GET /readyz ", 503, "not ready: no rules", 1, "not ready: no rules"},
		{"healthcheck " + gone.URL, "", 0, "", 1, "refused"},
		{"status --admin ADDRESS", "GET /v1/status ", 200, `{"of":"region eu"}`, 0, ""},
		{"status --admin ADDRESS", "GET /v1/status ", 200, `{"of":"all regions","missing_regions":["eu"]}`, 3, ""},
		{"status --admin ADDRESS", "GET /v1/status ", 200, "no JSON", 1, ""},
		{"admin forget-region eu --admin ADDRESS", `POST /v1/regions:forget {"region":"eu"}`, 204, "", 0, "nothing is withheld for region eu"},
		{"admin forget-region eu --admin ADDRESS", `POST /v1/regions:forget {"region":"eu"}`, 409, `{"status": 409, "detail": "it is not dead"}`, 1, "it is not dead"},
		{"admin forget-region eu --admin ADDRESS", `POST /v1/regions:forget {"region":"eu"}`, 404,
			`{"status": 404, "code": "unknown-operation", "detail": "there is no such operation"}`, 1, "name an aggregator by --admin or --context"},
	} {
		asked := ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			asked += r.Method + " " + r.URL.Path + " " + string(text)
			w.WriteHeader(c.answers)
			_, _ = io.WriteString(w, c.text)
		}))
		out := inHome(t, t.TempDir(), c.status, strings.Fields(strings.ReplaceAll(c.command, "ADDRESS", server.Listener.Addr().String()))...)
		if server.Close(); !strings.Contains(out, c.want) || !strings.Contains(asked, c.asked) {
			t.Errorf("%s: %q, want %q; asked %s, want %s", c.command, out, c.want, asked, c.asked)
		}
	}
}
