package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// weir runs the program in testdata and returns its exit status.
func weir(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = "testdata"
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	t.Logf("weir %q: %s", args, out)
	return cmd.ProcessState.ExitCode()
}

// TestConvertWritesOverNothing: without --force a file that is there stays as it is, and
// nothing is written beside it; with --force it is replaced.
func TestConvertWritesOverNothing(t *testing.T) {
	at := t.TempDir()
	rules, bindings := filepath.Join(at, "rules.yaml"), filepath.Join(at, "bindings.yaml")
	content := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return string(data)
	}
	fatal.If(t, os.WriteFile(bindings, []byte("mine"), 0o600))
	if got := weir(t, "rules", "convert", "ratelimit/plain", "--rules", rules, "--ratelimit-bindings", bindings); got != 1 || content(bindings) != "mine" || content(rules) != "" {
		t.Errorf("exit status %d; bindings %q, rules %q", got, content(bindings), content(rules))
	}
	if got := weir(t, "rules", "convert", "ratelimit/plain", "--rules", rules, "--ratelimit-bindings", filepath.Join(at, "none", "bindings.yaml")); got != 1 || content(rules) != "" {
		t.Errorf("bindings cannot be written: exit status %d, rules %q", got, content(rules))
	}
	if got := weir(t, "rules", "convert", "ratelimit/broken", "--force", "--rules", rules, "--ratelimit-bindings", bindings); got != 1 || content(bindings) != "mine" {
		t.Errorf("a mistake: exit status %d, bindings %q", got, content(bindings))
	}
	if got := weir(t, "rules", "convert", "ratelimit/plain", "--force", "--rules", rules, "--ratelimit-bindings", bindings); got != 0 {
		t.Errorf("with --force: exit status %d", got)
	}
	if got := weir(t, "rules", "validate", rules, "--ratelimit-bindings", bindings); got != 0 {
		t.Error("what was written is not valid")
	}
	if left, err := filepath.Glob(filepath.Join(at, ".weir*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
