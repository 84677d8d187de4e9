package rulefile_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestReplace: a file is replaced as a whole; who reads the one before reads all of it.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	for _, text := range []string{"a new file", "another one"} {
		fatal.If(t, rulefile.Replace(path, []byte(text), 0o640))
		got, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(got) != text || info.Mode() != 0o640 {
			t.Errorf("the file has %q, mode %v (%v), want %q", got, info.Mode(), err, text)
		}
	}
	before := fatal.Get(os.Open(path))(t)
	defer func() { _ = before.Close() }()
	fatal.If(t, rulefile.Replace(path, []byte("the last one"), 0o640))
	if text, err := io.ReadAll(before); err != nil || string(text) != "another one" {
		t.Errorf("who has opened the file before reads %q (%v)", text, err)
	}
	fatal.If(t, os.Mkdir(filepath.Join(dir, "a directory"), 0o700))
	if err := rulefile.Replace(filepath.Join(dir, "a directory"), nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("in the directory are %v (%v), want rules.yaml and a directory", left, err)
	}
}
