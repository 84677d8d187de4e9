package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/test/kit/fatal"
)

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
