package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// The filter beside the program is written for every user, in place of the one before. Where that cannot be, the
// message says what to do, and everything is as before.
func TestFilter(t *testing.T) {
	apart, dir := t.TempDir(), t.TempDir()
	copied := filepath.Join(apart, "weir")
	fatal.If(t, os.WriteFile(copied, fatal.Get(os.ReadFile(binary))(t), 0o700))
	linked := filepath.Join(t.TempDir(), "weir") // as in a directory of PATH
	fatal.If(t, os.Symlink(copied, linked))
	run := func(file, want string) {
		t.Helper()
		out, err := exec.Command(linked, "admin", "export-filter", file).CombinedOutput()
		if (err == nil) != strings.HasPrefix(want, "wrote ") || !strings.Contains(string(out), want) {
			t.Errorf("%v, %s, want %q", err, out, want)
		}
	}
	for _, kind := range []struct{ suffix, magic, what string }{{".wasm", "\x00asm", "WebAssembly module"}, {".so", "\x7fELF", "shared library"}} {
		file, beside := filepath.Join(dir, "filter"+kind.suffix), filepath.Join(apart, "weir"+kind.suffix)
		run(file, "there is no "+beside+"; call the program of a release")
		for _, content := range []string{kind.magic + " old", "", kind.magic[:3], kind.magic + " new"} {
			fatal.If(t, os.WriteFile(beside, []byte(content), 0o600))
			if !strings.HasPrefix(content, kind.magic) {
				run(file, beside+" is no "+kind.what+"; unpack the archive")
				content = kind.magic + " old"
			} else {
				run(file, "wrote "+file)
			}
			about, err := os.Stat(file)
			if text, _ := os.ReadFile(file); err != nil || about.Mode() != 0o644 || string(text) != content {
				t.Errorf("%q, %v, %v; want %q, which all may read", text, about, err, content)
			}
		}
	}
	run(dir, dir+" is no file; name one, such as "+filepath.Join(dir, "weir.wasm"))
	run(filepath.Join(dir, "none", "filter.wasm"), "no such file or directory")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v; want two files", files, err)
	}
}

// A variable that is misspelt is named, and with it the one that is likely meant.
func TestUnknownVariable(t *testing.T) {
	t.Setenv("WEIR_CONTXT", "staging")
	out := inHome(t, t.TempDir(), 0, "version")
	if !strings.Contains(out, "weir: warning: environment: WEIR_CONTXT: no such variable; did you mean WEIR_CONTEXT?") {
		t.Error(out)
	}
}
