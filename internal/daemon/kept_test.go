package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func newKept(path string, log *bytes.Buffer) engine.Cell {
	return newKeptCell(path, memory.New(memory.Config{}).NewCell(), slog.New(slog.NewTextHandler(log, nil)))
}

func TestKeptCell(t *testing.T) {
	enginetest.RunCell(t, func(t testing.TB) [2]engine.Cell {
		cell := newKept(filepath.Join(t.TempDir(), "kept"), new(bytes.Buffer))
		return [2]engine.Cell{cell, cell}
	})
}

// A value outlives its process. A file that cannot be read or written is logged, and the value is kept in memory.
func TestKeptCellOutlivesItsProcess(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "kept"), new(bytes.Buffer)
	text := func(s string) []byte {
		if s == "" {
			return nil
		}
		return []byte(s)
	}
	swap := func(c engine.Cell, old, next string) (found string) {
		t.Helper()
		got, _, err := c.Swap(t.Context(), text(old), text(next))
		fatal.If(t, err)
		return string(got)
	}
	first := newKept(path, log)
	swap(first, "", "one")
	swap(first, "one", "two")
	swap(first, "one", "three") // something else is stored
	if got := swap(newKept(path, log), "", ""); got != "two" || log.Len() > 0 {
		t.Errorf("%q is found, %s", got, log)
	}
	fatal.If(t, os.WriteFile(path, []byte("damaged"), 0o600))
	second := newKept(path, log)
	if got := swap(second, "", ""); got != "" || !strings.Contains(log.String(), "cannot read") {
		t.Errorf("%q is found in a damaged file: %s", got, log)
	}
	fatal.If(t, os.RemoveAll(filepath.Dir(path)))
	log.Reset()
	swap(second, "", "a")
	swap(second, "a", "b")
	if got := swap(second, "", ""); got != "b" || strings.Count(log.String(), "cannot save") != 1 {
		t.Errorf("%q is found, and logged is %s", got, log)
	}
}

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
