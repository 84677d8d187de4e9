package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Root returns the root of the repository.
func Root(t T) string {
	t.Helper()
	dir := fatal.Get(os.Getwd())(t)
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatalf("no go.mod here or above: run this inside the repository")
	return ""
}

// Built returns the path of something that a make target leaves in the repository.
func Built(t T, path, target string) string {
	t.Helper()
	path = filepath.Join(Root(t), path)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v\nrun `make %s` first", err, target)
	}
	return path
}

// Released returns the path of a file of the release that `make release` leaves, whose name has VERSION for the version.
func Released(t T, name string) string {
	t.Helper()
	return Built(t, filepath.Join("dist", strings.ReplaceAll(name, "VERSION", strings.TrimPrefix(version.Version, "v"))), "release")
}

// UnpackRelease unpacks the release's archive for this machine into a directory, and returns the folder that is in it.
func UnpackRelease(t T, dir string) string {
	t.Helper()
	archive := Released(t, "weir_VERSION_linux_"+runtime.GOARCH+".tar.gz")
	Run(t, exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", dir))
	return filepath.Join(dir, strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
}

// NewDir returns a new directory in .run/ of the repository, for logs and
// configuration.
func NewDir(t T, name string) string {
	t.Helper()
	parent := filepath.Join(Root(t), ".run")
	fatal.If(t, os.MkdirAll(parent, 0o755))
	return fatal.Get(os.MkdirTemp(parent, strings.ReplaceAll(name, "/", "-")+"-"))(t)
}

// LogDir returns a new directory for the logs of a test. It goes away if the test
// passes.
func LogDir(t interface {
	T
	Name() string
}) string {
	t.Helper()
	dir := NewDir(t, t.Name())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs and configuration: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("%v", err)
		}
	})
	return dir
}

// WriteFile writes a file, with its directory, and returns its path.
func WriteFile(t T, path, content string) string {
	t.Helper()
	fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
	fatal.If(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// Figure logs what a test measured, and adds it to the file from which make prints all figures at the end.
func Figure(t T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Logf("%s", line)
	if path := os.Getenv("WEIR_FIGURES"); path != "" {
		f := fatal.Get(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(t)
		_, err := fmt.Fprintln(f, line)
		fatal.If(t, errors.Join(err, f.Close()))
	}
}

// HasTest fails a test if a directory of the repository has no test of that name.
func HasTest(t T, dir, name string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(Root(t), dir, "*_test.go")) // the pattern is well-formed
	for _, file := range files {
		if strings.Contains(string(fatal.Get(os.ReadFile(file))(t)), "\nfunc "+name+"(t ") {
			return
		}
	}
	t.Errorf("%s has no %s", dir, name)
}
