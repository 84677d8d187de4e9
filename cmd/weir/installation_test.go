package main

import (
	"log/slog"
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
	if c, ok := l.Token(token); !ok || c.Name != "ann@example.com" || c.Role != access.Operator || c.Prefix != "team-" || c.Until.Year() != 2100 {
		t.Errorf("%+v, %v, of\n%s", c, ok, out)
	}
}

// Every command that reads an installation prints tables, wide ones and JSON, and says so in the same words.
func TestOutput(t *testing.T) {
	parser := fatal.Get(kong.New(new(commands), kong.Vars{"version": "test"}))(t)
	var found []string
	for _, leaf := range parser.Model.Leaves(false) {
		for _, f := range leaf.Flags {
			if f.Name == "output" && f.Short == 'o' && f.Enum == "table,wide,json" && f.Default == "table" {
				found = append(found, leaf.Path())
			}
		}
	}
	slices.Sort(found)
	want := "admin audit explain keys candidate list keys override list keys peek keys reset rules history status tap top"
	if got := strings.Join(found, " "); strings.ReplaceAll(got, "weir ", "") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
