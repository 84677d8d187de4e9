package access

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

func open(t *testing.T, path string) (*List, *watch.Watcher) {
	t.Helper()
	return Watch(path, slog.New(slog.DiscardHandler), telemetry.NewRegistry("test"))
}

// A file has tokens, of which it knows the hash alone, and names in certificates. A token that is taken out of it ends,
// and a mistake changes nothing.
func TestList(t *testing.T) {
	ann, annSum := NewToken()
	bob, bobSum := NewToken()
	if ann == bob || !strings.HasPrefix(ann, tokenPrefix) {
		t.Fatalf("tokens %s and %s", ann, bob)
	}
	path := proc.WriteFile(t, filepath.Join(t.TempDir(), "tokens.yaml"), fmt.Sprintf(`
tokens:
- { name: ann, role: admin, prefix: team-, sha256: %q }
- { name: bob, role: viewer, until: 2027-01-31T00:00:00Z, sha256: %q }
clients:
- { name: ci, role: operator, san: "weir://ci" }
`, annSum, bobSum))
	l, w := open(t, path)
	if _, ok := l.Token(ann); ok {
		t.Error("a token is known before the file is read")
	}
	fatal.If(t, w.Load())
	a, ok := l.Token(ann)
	if !ok || a.Name != "ann" || a.Role != Admin || !a.May("team-login") || a.May("login") || a.Over(time.Now().AddDate(100, 0, 0)) {
		t.Errorf("ann is %+v", a)
	}
	b, ok := l.Token(bob)
	if end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC); !ok || b.Role != Viewer || !b.May("login") || !b.Over(end) || b.Over(end.Add(-time.Second)) {
		t.Errorf("bob is %+v", b)
	}
	for _, wrong := range []string{"", annSum, ann + "x", ann[:len(ann)-1]} {
		if c, ok := l.Token(wrong); ok {
			t.Errorf("%q is the token of %+v", wrong, c)
		}
	}
	if c, ok := l.Client([]string{"x", "weir://ci"}); !ok || c.Name != "ci" || c.Role != Operator {
		t.Errorf("the certificate is of %+v", c)
	}
	if c, ok := l.Client([]string{"x", ""}); ok {
		t.Errorf("a certificate for nobody is of %+v", c)
	}

	proc.WriteFile(t, path, "tokens: [{ name: bob }]\n")
	if _, ok := l.Token(ann); w.Load() == nil || !ok {
		t.Error("a mistake has ended a token")
	}
	proc.WriteFile(t, path, fmt.Sprintf("tokens: [{ name: bob, role: viewer, sha256: %q }]\n", bobSum))
	fatal.If(t, w.Load())
	_, isAnn := l.Token(ann)
	if _, isBob := l.Token(bob); isAnn || !isBob {
		t.Error("a token that was taken out is good, or one that was added is not")
	}
}

// Each mistake in a file is named with its line, and such a file replaces no good one.
func TestMistakes(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	golden.Lines(t, "testdata/mistakes.golden", func(text string) string {
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		_, w := open(t, proc.WriteFile(t, path, strings.NewReplacer("SUM", sum, "LESS", sum[2:]).Replace(text)))
		err := w.Load()
		if err == nil {
			t.Fatalf("%s is taken", text)
		}
		return strings.ReplaceAll(err.Error(), path, "tokens.yaml")
	})
}

// A file that everybody may write is rejected: who can write it gives himself a role.
func TestWritable(t *testing.T) {
	path := proc.WriteFile(t, filepath.Join(t.TempDir(), "tokens.yaml"), "tokens: []\n")
	fatal.If(t, os.Chmod(path, 0o666))
	_, w := open(t, path)
	if err := w.Load(); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("%v", err)
	}
}
