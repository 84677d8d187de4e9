package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/live"
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
	swap := func(c engine.Cell, old string, next []byte) (found string) {
		t.Helper()
		got, _, err := c.Swap(t.Context(), []byte(old), next)
		fatal.If(t, err)
		return string(got)
	}
	first := newKept(path, log)
	swap(first, "", []byte("one"))
	swap(first, "one", []byte("two"))
	swap(first, "one", []byte("three")) // something else is stored
	if got := swap(newKept(path, log), "", nil); got != "two" || log.Len() > 0 {
		t.Errorf("%q is found, %s", got, log)
	}
	fatal.If(t, os.WriteFile(path, []byte("damaged"), 0o600))
	second := newKept(path, log)
	if got := swap(second, "", nil); got != "" || !strings.Contains(log.String(), "cannot read") {
		t.Errorf("%q is found in a damaged file: %s", got, log)
	}
	fatal.If(t, os.RemoveAll(filepath.Dir(path)))
	log.Reset()
	swap(second, "", []byte("a"))
	swap(second, "a", []byte("b"))
	if got := swap(second, "", nil); got != "b" || strings.Count(log.String(), "cannot save") != 1 {
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

// The history outlives its process, as far as its time is not over. One that cannot be read begins anew, and says so.
func TestKeptHistory(t *testing.T) {
	path, text := filepath.Join(t.TempDir(), "state.history"), new(bytes.Buffer)
	log := slog.New(slog.NewTextHandler(text, nil))
	first := newKeptHistory(path, log)
	fatal.If(t, first.Put(t.Context(), []live.Note{{ID: "long", Text: []byte("\x00\xff"), For: time.Hour}, {ID: "short", For: time.Millisecond}}))
	first.save(false)
	if _, err := os.Stat(path); err == nil {
		t.Error("saved before it is due")
	}
	first.save(true)
	time.Sleep(2 * time.Millisecond)
	notes, now, _ := newKeptHistory(path, log).All(t.Context())
	if len(notes) != 1 || notes[0].ID != "long" || string(notes[0].Text) != "\x00\xff" || notes[0].Left(now) > time.Hour || text.Len() > 0 {
		t.Errorf("%+v, %s", notes, text)
	}
	fatal.If(t, os.WriteFile(path, []byte("damaged"), 0o600))
	if notes, _, _ := newKeptHistory(path, log).All(t.Context()); len(notes) != 0 || !strings.Contains(text.String(), "begins anew") {
		t.Errorf("%+v of a damaged file, %s", notes, text)
	}
	text.Reset()
	fatal.If(t, os.RemoveAll(filepath.Dir(path)))
	first.save(true)
	if !strings.Contains(text.String(), "cannot save the history") {
		t.Errorf("%s", text)
	}
	(*keptHistory)(nil).save(true)
}
