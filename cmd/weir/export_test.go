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
	apart := t.TempDir()
	beside := filepath.Join(apart, "weir.wasm")
	copied := filepath.Join(apart, "weir")
	content := fatal.Get(os.ReadFile(binary))(t)
	fatal.If(t, os.WriteFile(copied, content, 0o700))
	linked := filepath.Join(t.TempDir(), "weir") // as in a directory of PATH
	fatal.If(t, os.Symlink(copied, linked))
	dir := t.TempDir()
	file := filepath.Join(dir, "filter.wasm")
	run := func(file, want string) {
		t.Helper()
		out, err := exec.Command(linked, "admin", "export-filter", file).CombinedOutput()
		if (err == nil) != strings.HasPrefix(want, "wrote ") || !strings.Contains(string(out), want) {
			t.Errorf("%v, %s, want %q", err, out, want)
		}
	}
	run(file, "there is no "+beside+"; call the program of a release")
	fatal.If(t, os.WriteFile(beside, []byte("\x00asm old"), 0o600))
	run(file, "wrote "+file)
	for _, cut := range []string{"", "\x00as"} {
		fatal.If(t, os.WriteFile(beside, []byte(cut), 0o600))
		run(file, beside+" is no WebAssembly module; unpack the archive")
	}
	fatal.If(t, os.WriteFile(beside, []byte("\x00asm new"), 0o600))
	run(dir, dir+" is no file; name one, such as "+file[:len(dir)+1]+"weir.wasm")
	run(filepath.Join(dir, "none", "filter.wasm"), "no such file or directory")
	if text, err := os.ReadFile(file); err != nil || string(text) != "\x00asm old" {
		t.Errorf("%q, %v; want the file of before", text, err)
	}
	run(file, "wrote "+file)
	about, err := os.Stat(file)
	if err != nil || about.Mode() != 0o644 {
		t.Errorf("%v, %v; want that all may read it", about, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "\x00asm new" {
		t.Errorf("%q, %v; want the new file", text, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v; want one file", files, err)
	}

	library, besideLibrary := filepath.Join(dir, "filter.so"), filepath.Join(apart, "weir.so")
	run(library, "there is no "+besideLibrary+"; call the program of a release")
	fatal.If(t, os.WriteFile(besideLibrary, []byte("\x00asm"), 0o600))
	run(library, besideLibrary+" is no shared library; unpack the archive")
	fatal.If(t, os.WriteFile(besideLibrary, []byte("\x7fELF new"), 0o600))
	run(library, "wrote "+library)
	if text, err := os.ReadFile(library); err != nil || string(text) != "\x7fELF new" {
		t.Errorf("%q, %v; want the library", text, err)
	}
}

// A variable that is misspelt is named, and with it the one that is likely meant.
func TestUnknownVariable(t *testing.T) {
	cmd := exec.Command(binary, "version")
	cmd.Env = append(os.Environ(), "WEIR_CONTXT=staging")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 0 || !strings.Contains(string(out), "weir: warning: environment: WEIR_CONTXT: no such variable; did you mean WEIR_CONTEXT?") {
		t.Errorf("%v, %s", err, out)
	}
}
