package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestConvertWritesOverNothing: without --force a file that is there stays as it is, and
// nothing is written beside it; with --force it is replaced.
func TestConvertWritesOverNothing(t *testing.T) {
	at := t.TempDir()
	rules, bindings := filepath.Join(at, "rules.yaml"), filepath.Join(at, "bindings.yaml")
	run := func(status int, args, bindings string) {
		t.Helper()
		inHome(t, at, status, strings.Fields("rules "+args+" --ratelimit-bindings "+bindings)...)
	}
	fatal.If(t, os.WriteFile(bindings, []byte("mine"), 0o600))
	run(1, "convert testdata/ratelimit/plain --rules "+rules, bindings)
	run(1, "convert testdata/ratelimit/plain --rules "+rules, filepath.Join(at, "none", "bindings.yaml"))
	run(1, "convert testdata/ratelimit/broken --force --rules "+rules, bindings)
	left := fatal.Get(os.ReadDir(at))(t)
	if text := fatal.Get(os.ReadFile(bindings))(t); len(left) != 1 || string(text) != "mine" {
		t.Errorf("the bindings are %q, and there are %v", text, left)
	}
	run(0, "convert testdata/ratelimit/plain --force --rules "+rules, bindings)
	run(0, "validate "+rules, bindings)
	if left := fatal.Get(os.ReadDir(at))(t); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}
