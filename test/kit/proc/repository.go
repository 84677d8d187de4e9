package proc

import (
	"os"
	"path/filepath"
	"strings"
)

// Root returns the root of the repository.
func Root(t T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("%v", err)
	}
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

// NewDir returns a new directory in .run/ of the repository, for logs and
// configuration.
func NewDir(t T, name string) string {
	t.Helper()
	parent := filepath.Join(Root(t), ".run")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	dir, err := os.MkdirTemp(parent, strings.ReplaceAll(name, "/", "-")+"-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return dir
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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatalf("%v", err)
	}
	return path
}
