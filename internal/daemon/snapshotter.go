package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/statefile"
	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// holdersReturn is how long after the start the holders of the process before count:
	// by then they have called again.
	holdersReturn = 15 * time.Second
	// saveShare makes the pause after a save this many times as long as the save took.
	saveShare = 20
)

// snapshotter saves the counters in memory to a file, so that they outlive the process. The
// file is locked for as long as it is in use.
type snapshotter struct {
	path     string
	interval time.Duration // 0: saves only at the end
	store    *memory.Store
	log      *slog.Logger
	began    time.Time
	before   int          // holders of the process before
	holders  func() int   // of this process
	history  *keptHistory // saved beside the counters; nil: there is none

	mu     sync.Mutex // one save at a time
	lock   io.Closer
	ended  bool
	failed error // the last save; nil: it did not fail

	ok, bytes, took telemetry.Gauge
	saves, errors   telemetry.Counter
}

// newSnapshotter loads the counters from the file at path. It is nil, with a warning in the
// log, where no file can be kept: a region without one limits in the same way, but its
// counters are lost at the end. A file that another process uses is an error: two that
// begin from the same counters would grant the same units, and one of them would lose its own.
func newSnapshotter(path string, interval time.Duration, store *memory.Store, r *telemetry.Registry, log *slog.Logger) (*snapshotter, error) {
	s := &snapshotter{path: path, interval: interval, store: store, log: log, began: time.Now()}
	s.ok = r.Gauge("weir_state_ok", "1 while the counters can be saved: 0 after a save that failed, or where there is no file to save to.")
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		s.lock, err = statefile.Lock(path)
	}
	if used := new(statefile.InUseError); errors.As(err, &used) {
		return nil, fmt.Errorf("state: %w; stop that process, or give this one a file of its own, such as --state %s-2, or --state off", used, path)
	}
	if err != nil {
		log.Warn("no state file; the counters end with this process", "file", path, "error", err,
			"remedy", "with --state name a file in a directory that this process may write to, or off")
		return nil, nil
	}
	s.saves = r.Counter("weir_state_saves_total", "Times that the counters were saved.")
	s.errors = r.Counter("weir_state_errors_total", "Times that the counters could not be saved.")
	s.bytes = r.Gauge("weir_state_bytes", "Size of the state file.")
	s.took = r.Gauge("weir_state_save_seconds", "How long the last save took.")
	s.load()
	s.ok.Set(1)
	return s, nil
}

// load reads the counters from the file.
func (s *snapshotter) load() {
	begin := time.Now()
	loader := s.store.Loader()
	var wrong []error
	h, err := statefile.Read(s.path, func(record []byte) error {
		if err := loader.Put(record); err != nil {
			wrong = append(wrong[:min(len(wrong), 9)], err)
		}
		return nil
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		s.log.Info("no state file yet; the counters start at zero", "file", s.path)
		return
	case err != nil:
		s.log.Error("cannot use the state file; the counters start at zero", "file", s.path, "error", err)
		return
	}
	s.before = h.Holders
	s.log.Info("loaded counters", "file", s.path, "counters", loader.Loaded,
		"saved", h.Saved.Format(time.RFC3339Nano), "by", fmt.Sprintf("%s/%d", h.Host, h.PID), "over", loader.Fresh,
		"no_room", loader.NoRoom, "took", time.Since(begin).Round(time.Microsecond))
	if loader.NoRoom > 0 || len(wrong) > 0 {
		s.log.Error("some counters could not be loaded; they start at zero", "no_room", loader.NoRoom, "errors", errors.Join(wrong...))
	}
}

// formerHolders is how many holders the process before had, and 0 after the time in
// which they call again: the first of them must not take a whole limit as its share.
func (s *snapshotter) formerHolders() int {
	if time.Since(s.began) < holdersReturn {
		return s.before
	}
	return 0
}

// begin saves the counters before anything is granted: a file that cannot be written is known
// from the start. holders counts those of this process. A nil snapshotter saves nothing.
func (s *snapshotter) begin(holders func() int) {
	if s == nil {
		return
	}
	s.holders = holders
	s.save(false)
}

// Run saves the counters at each interval, until ctx ends.
func (s *snapshotter) Run(ctx context.Context) error {
	if s.interval == 0 {
		<-ctx.Done()
		return nil
	}
	took := time.Duration(0)
	for repeat.Sleep(ctx, max(s.interval, saveShare*took)) {
		if s.due() {
			took = s.save(false)
		}
	}
	return nil
}

// due reports whether the file differs from the counters.
func (s *snapshotter) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed != nil || s.store.Changed()
}

// end saves the counters for the last time: nothing is granted any more. It may be called on nil.
func (s *snapshotter) end() {
	if s == nil {
		return
	}
	s.save(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.lock.Close() // the process ends anyway
}

// save writes the file, and returns how long that took. A failure is logged when the save before succeeded.
func (s *snapshotter) save(last bool) (took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0
	}
	begin := time.Now()
	counters, size, err := s.write()
	took = time.Since(begin)
	s.took.Set(took.Seconds())
	if err != nil {
		s.ok.Set(0)
		s.errors.Inc()
		if s.failed == nil || last {
			s.log.Error("cannot save the counters; the file has the last save", "file", s.path, "error", err,
				"runbook", "docs/runbooks/WeirStateNotSaved.md")
		}
		s.failed = err
		return took
	}
	s.history.save(last)
	s.ok.Set(1)
	s.saves.Inc()
	s.bytes.Set(float64(size))
	if s.failed != nil {
		s.log.Info("counters are saved again", "file", s.path)
	}
	s.failed = nil
	if last {
		s.log.Info("saved counters", "file", s.path, "counters", counters, "bytes", size, "took", took.Round(time.Microsecond))
	}
	return took
}

func (s *snapshotter) write() (counters int, size int64, err error) {
	size, err = statefile.Write(s.path, max(s.formerHolders(), s.holders()), func(put func([]byte)) { counters = s.store.Save(put) })
	return counters, size, err
}

// historyEvery is how often the history is saved beside the state file, at most.
const historyEvery = time.Minute

// keptHistory is the history of a region without Redis: notes in memory, which a file beside the state file keeps through a
// restart.
type keptHistory struct {
	live.Memory
	path  string
	log   *slog.Logger
	saved time.Time
}

// newKeptHistory loads the history. Without it, or with a damaged file, the history begins anew.
func newKeptHistory(path string, log *slog.Logger) *keptHistory {
	k := &keptHistory{path: path, log: log, saved: time.Now()}
	_, err := statefile.Read(path, func(record []byte) error {
		var n live.Note
		if err := json.Unmarshal(record, &n); err != nil {
			return err
		}
		if n.For = min(time.Until(time.UnixMilli(n.Until)), live.LongestNote).Truncate(time.Millisecond); n.For <= 0 {
			return nil
		}
		return k.Put(context.Background(), []live.Note{n})
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("cannot load the history of decisions; it begins anew", "file", path, "error", err)
	}
	return k
}

// save writes the file, the last time or if it is due. A nil history saves nothing.
func (k *keptHistory) save(last bool) {
	if k == nil || !last && time.Since(k.saved) < historyEvery {
		return
	}
	k.saved = time.Now()
	notes, _, _ := k.All(context.Background()) // in memory nothing fails
	_, err := statefile.Write(k.path, 0, func(put func([]byte)) {
		for i := range notes {
			record, _ := json.Marshal(&notes[i]) // its types have no encoding that fails
			put(record)
		}
	})
	if err != nil {
		k.log.Warn("cannot save the history of decisions; after a restart it has a gap", "file", k.path, "error", err)
	}
}
