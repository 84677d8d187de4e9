package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/engine/memory"
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

// keeper keeps the counters in memory in a file, so that they outlive the process. Its
// file is locked for as long as it is in use.
type keeper struct {
	path     string
	interval time.Duration // 0: saves only at the end
	store    *memory.Store
	log      *slog.Logger
	began    time.Time
	before   int        // holders of the process before
	holders  func() int // of this process

	mu     sync.Mutex // one save at a time
	lock   *os.File
	ended  bool
	failed error // the last save; nil: it did not fail

	ok                   atomic.Bool
	saves, errors, bytes atomic.Uint64
	took                 atomic.Int64 // nanoseconds
}

// newKeeper loads the counters from the file at path. It is nil, with a warning in the
// log, where no file can be kept: a region without one limits in the same way, but its
// counters are lost at the end. A file that another process uses is an error: two that
// begin from the same counters would grant the same units, and one of them would lose its own.
func newKeeper(path string, interval time.Duration, s *memory.Store, r *telemetry.Registry, log *slog.Logger) (*keeper, error) {
	k := &keeper{path: path, interval: interval, store: s, log: log, began: time.Now()}
	r.GaugeFunc("weir_state_ok", "1 while the counters can be saved: 0 after a save that failed, or where there is no file to save to.", func() float64 {
		if k.ok.Load() {
			return 1
		}
		return 0
	})
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		k.lock, err = statefile.Lock(path)
	}
	if used := new(statefile.InUseError); errors.As(err, &used) {
		return nil, fmt.Errorf("state: %w; stop that process, or give this one a file of its own, such as --state %s-2, or --state off", used, path)
	}
	if err != nil {
		log.Warn("no state file; the counters end with this process", "file", path, "error", err,
			"remedy", "with --state name a file in a directory that this process may write to, or off")
		return nil, nil
	}
	k.observe(r)
	k.load()
	k.ok.Store(true)
	return k, nil
}

// load reads the counters from the file.
func (k *keeper) load() {
	begin := time.Now()
	loader := k.store.Loader()
	var wrong []error
	h, err := statefile.Read(k.path, func(record []byte) error {
		if err := loader.Put(record); err != nil {
			wrong = append(wrong[:min(len(wrong), 9)], err)
		}
		return nil
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		k.log.Info("no state file yet; the counters begin as new", "file", k.path)
		return
	case err != nil:
		k.log.Error("cannot use the state file; the counters begin as new", "file", k.path, "error", err)
		return
	}
	k.before = h.Holders
	k.log.Info("loaded counters", "file", k.path, "counters", loader.Loaded,
		"saved", h.Saved.Format(time.RFC3339Nano), "by", fmt.Sprintf("%s/%d", h.Host, h.PID), "over", loader.Fresh,
		"no_room", loader.NoRoom, "took", time.Since(begin).Round(time.Microsecond))
	if loader.NoRoom > 0 || len(wrong) > 0 {
		k.log.Error("some counters could not be loaded; they begin as new", "no_room", loader.NoRoom, "errors", errors.Join(wrong...))
	}
}

func (k *keeper) observe(r *telemetry.Registry) {
	r.CounterFunc("weir_state_saves_total", "Times that the counters were saved.", func() float64 { return float64(k.saves.Load()) })
	r.CounterFunc("weir_state_errors_total", "Times that the counters could not be saved.", func() float64 { return float64(k.errors.Load()) })
	r.GaugeFunc("weir_state_bytes", "Size of the state file.", func() float64 { return float64(k.bytes.Load()) })
	r.GaugeFunc("weir_state_save_seconds", "How long the last save took.", func() float64 { return time.Duration(k.took.Load()).Seconds() })
}

// formerHolders is how many holders the process before had, and 0 after the time in
// which they call again: the first of them must not take a whole limit as its share.
func (k *keeper) formerHolders() int {
	if time.Since(k.began) < holdersReturn {
		return k.before
	}
	return 0
}

// begin saves the counters before anything is granted: a file that cannot be written is known
// from the start.
func (k *keeper) begin(holders func() int) {
	k.holders = holders
	k.save(false)
}

// Run saves the counters at each interval, until ctx ends.
func (k *keeper) Run(ctx context.Context) error {
	if k.interval == 0 {
		<-ctx.Done()
		return nil
	}
	next := time.NewTimer(k.interval)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		if k.store.Changed() || !k.ok.Load() {
			k.save(false)
		}
		next.Reset(max(k.interval, saveShare*time.Duration(k.took.Load())))
	}
}

// end saves the counters for the last time: nothing is granted any more.
func (k *keeper) end() {
	k.save(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	_ = k.lock.Close() // the process ends anyway
}

// save writes the file. A failure is logged when the save before succeeded.
func (k *keeper) save(last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	begin := time.Now()
	counters, size, err := k.write()
	k.took.Store(int64(time.Since(begin)))
	k.ok.Store(err == nil)
	if err != nil {
		k.errors.Add(1)
		if k.failed == nil || last {
			k.log.Error("cannot save the counters; the file has the last save", "file", k.path, "error", err,
				"runbook", "docs/runbooks/WeirStateNotSaved.md")
		}
		k.failed = err
		return
	}
	k.saves.Add(1)
	k.bytes.Store(uint64(size))
	if k.failed != nil {
		k.log.Info("counters are saved again", "file", k.path)
	}
	k.failed = nil
	if last {
		k.log.Info("saved counters", "file", k.path, "counters", counters, "bytes", size, "took", time.Since(begin).Round(time.Microsecond))
	}
}

func (k *keeper) write() (counters int, size int64, err error) {
	host, _ := os.Hostname() // for people only
	w, err := statefile.Create(k.path, statefile.Header{
		Holders: max(k.formerHolders(), k.holders()), Saved: time.Now().UTC(), Host: host, PID: os.Getpid(),
	})
	if err != nil {
		return 0, 0, err
	}
	counters = k.store.Save(w.Put)
	size, err = w.Commit()
	return counters, size, err
}
