package secrets_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service/secrets"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

const one, two = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"

func file(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key-secrets")
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	fatal.If(t, os.Chmod(path, mode))
	return path
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string // of the error; empty: it is good
	}{
		{"a " + one + "\n", 0o640, ""},
		{"b " + two + "\na " + one, 0o600, ""},
		{"a " + one, 0o644, "chmod o-rwx"},
		{"", 0o600, "1: is no secret"},
		{one, 0o600, "1: is no secret"},
		{"a " + one[2:], 0o600, "1: is no secret"},
		{"a " + one + "\nb x", 0o600, "2: is no secret"},
		{"a b " + one, 0o600, "1: is no secret"},
		{"a " + one + "\na " + two, 0o600, "has the name or the secret of the line before"},
		{"a " + one + "\nb " + one, 0o600, "has the name or the secret of the line before"},
		{"a " + one + "\nb " + two + "\nc " + two, 0o600, "more than 2 lines"},
	} {
		all, err := secrets.Read(file(t, c.text, c.mode))
		if c.want == "" && (err != nil || len(all) == 0 || all[0].Secret == rule.Secret{}) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q, mode %o: %v, want %q", c.text, c.mode, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), one[:8]) || strings.Contains(err.Error(), two[:8])) {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

// TestWatch: neither the log nor the metrics have the secret.
func TestWatch(t *testing.T) {
	var log bytes.Buffer
	metrics := telemetry.NewRegistry("test")
	var got []rule.Secret
	w := secrets.Watch(file(t, "new "+two+"\nold "+one, 0o600), func(all []rule.Secret) error { got = all; return nil }, slog.New(slog.NewTextHandler(&log, nil)), metrics)
	if err := w.Load(); err != nil || len(got) != 2 || got[0][0] != 0xff {
		t.Fatalf("%v: %v", err, got)
	}
	text := log.String() + measure.Page(metrics.Handler())
	if !strings.Contains(text, "new-") || strings.Contains(text, one[:8]) || strings.Contains(text, two[:8]) {
		t.Errorf("log and metrics: %s", text)
	}
}
