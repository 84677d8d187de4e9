package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestSecretKey: weir keys hash prints a key under each secret, of a rule that hashes its keys or of none. Secrets that others can
// read are none.
func TestSecretKey(t *testing.T) {
	secrets := filepath.Join(t.TempDir(), "secrets")
	fatal.If(t, os.WriteFile(secrets, []byte("new ffeeddccbbaa99887766554433221100\nold 00112233445566778899aabbccddeeff\n"), 0o600))
	for _, of := range []string{"api hunter2 --rules testdata/keys.yaml", "hunter2"} {
		out := inHome(t, t.TempDir(), 0, strings.Fields("keys hash "+of+" --key-secrets "+secrets)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 2 || len(lines[0]) != 34+len(" new") || !strings.HasPrefix(lines[0], `\h`) || !strings.HasSuffix(lines[1], " old") || lines[0][:34] == lines[1][:34] {
			t.Errorf("%s: %s", of, out)
		}
	}
	fatal.If(t, os.Chmod(secrets, 0o644))
	if out := inHome(t, t.TempDir(), 1, "keys", "hash", "hunter2", "--key-secrets", secrets); !strings.Contains(out, "chmod o-rwx") {
		t.Errorf("of secrets that all may read: %s", out)
	}
}
