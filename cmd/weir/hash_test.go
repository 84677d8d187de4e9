package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestKeyOfARule: weir keys hash prints the key of a rule as requests have it; under each secret, if the rule hashes its keys.
func TestKeyOfARule(t *testing.T) {
	dir := t.TempDir()
	rules, secrets, open := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "secrets"), filepath.Join(dir, "open")
	for path, text := range map[string]string{
		rules:   "rules:\n  - { name: plain, key: [client_ip, path], limit: 5/1m }\n  - { name: api, key: [{ header: x-key }], hash: true, limit: 5/1m }\n",
		secrets: "new ffeeddccbbaa99887766554433221100\nold 00112233445566778899aabbccddeeff\n", open: "a 00112233445566778899aabbccddeeff\n",
	} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	}
	fatal.If(t, os.Chmod(open, 0o644))
	for _, c := range []struct{ args, want string }{
		{"keys hash plain 2001:db8::7 /v1/a|b --rules RULES", `2001:db8::/64|/v1/a\|b` + "\n"},
		{"keys hash plain 192.0.2.7 / -o json --rules RULES", `"key": "192.0.2.7|/"`},
		{"keys hash api hunter2 --rules RULES", "hashes its keys; give --key-secrets"},
		{"keys hash nosuch hunter2 --rules RULES", "rule nosuch is not in"},
		{"keys hash api a b --rules RULES", "has parts: 1, values here: 2"},
		{"keys hash api hunter2 --rules RULES --key-secrets OPEN", "chmod o-rwx"},
		{"keys hash api hunter2 --rules RULES --key-secrets SECRETS", `\h`},
		{"keys hash hunter2 --key-secrets SECRETS", `\h`},
	} {
		args := strings.Fields(strings.NewReplacer("RULES", rules, "SECRETS", secrets, "OPEN", open).Replace(c.args))
		out, _ := exec.Command(binary, args...).CombinedOutput()
		got := string(out)
		if c.want != `\h` {
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %s, want %s", c.args, got, c.want)
			}
			continue
		}
		lines := strings.Split(strings.TrimSpace(got), "\n")
		if len(lines) != 2 || len(lines[0]) != 34+len(" new") || !strings.HasPrefix(lines[0], `\h`) || !strings.HasSuffix(lines[1], " old") || lines[0][:34] == lines[1][:34] {
			t.Errorf("%s: %s", c.args, got)
		}
	}
}
