package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// A region in memory has the ID of its reserve's record after a restart. A file that is damaged is replaced.
func TestKeptID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.reserve")
	id := func(path string) uint64 { return keptID(newKept(path, new(bytes.Buffer))) }
	first := id(path)
	if first == 0 || id(path) != first {
		t.Error("another ID after a restart")
	}
	fatal.If(t, os.WriteFile(path, []byte("hello"), 0o600))
	if next := id(path); next == 0 || next == first || id(path) != next {
		t.Error("the ID of a damaged file")
	}
	if id(filepath.Join(path, "nowhere")) == 0 {
		t.Error("no ID where it cannot be kept")
	}
}
