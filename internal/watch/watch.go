// Package watch keeps what is in force equal to what files say, as long as that is
// right: files with a mistake never replace a good configuration.
package watch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// every is how often the files are read. Their content is compared, not only their
	// times: that sees every kind of change, a swapped symbolic link as Kubernetes
	// uses and an edit that keeps time and size, and costs under a millisecond.
	every = time.Second
	// settle is how long new content must stand before it counts, so that a file
	// which is being written is not taken for a short one.
	settle = 100 * time.Millisecond
)

// MaxFile bounds a file, in bytes.
const MaxFile = 16 << 20

// File is a file as it was read.
type File struct {
	Name string
	Data []byte
	// Modified is when it was changed last; zero where nobody asks for that. A file
	// that is only touched is judged again.
	Modified time.Time
}

// Candidate is a configuration without mistakes.
type Candidate struct {
	// Version names what it means: of two with the same one the second is not
	// applied.
	Version string
	// Revision orders versions. One that only has another revision is applied, too.
	Revision uint64
	// Apply puts it in force. An error refuses it, as a mistake does, but for the
	// time being: what it lacks may come, so it is tried again each time the files
	// are read.
	Apply func() error
	// About is for the log, as of slog.Logger: what there is to say of it.
	About []any
}

// Config says what to watch.
type Config struct {
	// What it is, in one word: "rules". It begins every message and, behind "weir_", the
	// names of metrics.
	What string
	// Path is the file or directory, for messages.
	Path string
	// Read reads the files; Parse says what they mean. The text of its error has a
	// line for each mistake.
	Read  func() ([]File, error)
	Parse func([]File) (Candidate, error)

	Log     *slog.Logger
	Metrics *telemetry.Registry
}

// Watcher reads files again and again. Create it with [New].
type Watcher struct {
	cfg Config

	// These belong to whoever calls Load or Run.
	judged   []File // what was last read and has its verdict; nil: nothing
	good     bool   // it had no mistake
	failure  string // what is wrong as it was last told; empty if nothing is
	version  string // in force
	revision uint64 // likewise

	ok      telemetry.Gauge
	info    *telemetry.GaugeVec
	reloads *telemetry.CounterVec
	loaded  atomic.Int64 // Unix time in nanoseconds at which it came into force; 0: never
}

// New makes a watcher. What it applies is applied by Load and Run only.
func New(c Config) *Watcher {
	r, metric := c.Metrics, "weir_"+c.What
	w := &Watcher{
		cfg:     c,
		ok:      r.Gauge(metric+"_config_ok", "1 if the "+c.What+", as they were last read, are in force; 0 if they have mistakes or cannot be read, and older ones are."),
		info:    r.Gauges(metric+"_info", "The version of the "+c.What+" in force; always 1.", "version"),
		reloads: r.Counters(metric+"_reloads_total", "Changes of the "+c.What+", by whether they came into force.", "result"),
	}
	w.reloads.WithLabelValues("applied")
	w.reloads.WithLabelValues("refused")
	r.GaugeFunc(metric+"_age_seconds", "Time since the "+c.What+" in force were read.", func() float64 {
		if loaded := w.loaded.Load(); loaded != 0 {
			return time.Since(time.Unix(0, loaded)).Seconds()
		}
		return 0
	})
	return w
}

// Load reads the files once and puts them in force. The error has a line for each
// mistake.
func (w *Watcher) Load() error {
	files, err := w.cfg.Read()
	if err != nil {
		return err
	}
	candidate, err := w.cfg.Parse(files)
	if err != nil {
		return err
	}
	if err := w.enforce(candidate); err != nil {
		return err
	}
	w.judged = files
	return nil
}

// Run reads the files every second, and at once when reload receives, until ctx
// ends.
func (w *Watcher) Run(ctx context.Context, reload <-chan os.Signal) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			w.judged, w.failure = nil, "" // whatever they say is told again
			w.look(ctx)
		case <-tick.C:
			w.look(ctx)
		}
	}
}

// look reads the files and judges what is new in them.
func (w *Watcher) look(ctx context.Context) {
	files, err := w.cfg.Read()
	switch {
	case err != nil:
		w.refuse(err, "cannot be used")
	case w.judged != nil && same(files, w.judged):
		if w.good && w.failure != "" { // they could not be read meanwhile
			w.failure = ""
			w.ok.Set(1)
		}
	case w.settled(ctx, files):
		w.judge(files)
	}
}

// settled reports whether the files are not just being written.
func (w *Watcher) settled(ctx context.Context, files []File) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(settle):
	}
	later, err := w.cfg.Read()
	return err == nil && same(later, files)
}

func same(a, b []File) bool {
	return slices.EqualFunc(a, b, func(a, b File) bool {
		return a.Name == b.Name && a.Modified.Equal(b.Modified) && bytes.Equal(a.Data, b.Data)
	})
}

func (w *Watcher) judge(files []File) {
	candidate, err := w.cfg.Parse(files)
	w.judged = files
	if err == nil {
		if err = w.enforce(candidate); err != nil {
			w.judged = nil // what refuses it may change without the files
		}
	}
	if w.good = err == nil; !w.good {
		w.refuse(err, "is wrong")
	}
}

// enforce puts a candidate in force.
func (w *Watcher) enforce(c Candidate) error {
	about := append([]any{"file", w.cfg.Path, "version", c.Version}, c.About...)
	if c.Version != w.version || c.Revision != w.revision {
		if err := c.Apply(); err != nil {
			return err
		}
	}
	w.revision = c.Revision
	w.good, w.failure = true, ""
	w.ok.Set(1)
	if c.Version == w.version {
		w.cfg.Log.Info(w.cfg.What+": read again, they mean the same", about...)
		return nil
	}
	w.info.Reset()
	w.info.WithLabelValues(c.Version).Set(1)
	w.loaded.Store(time.Now().UnixNano())
	w.reloads.WithLabelValues("applied").Inc()
	w.cfg.Log.Info(w.cfg.What+": in force", append(about, "before", w.version)...)
	w.version = c.Version
	return nil
}

// refuse tells what is wrong with the files, each mistake once for as long as the
// whole of them stays the same.
func (w *Watcher) refuse(err error, verdict string) {
	w.ok.Set(0)
	if err.Error() == w.failure {
		return
	}
	w.failure = err.Error()
	w.reloads.WithLabelValues("refused").Inc()
	for mistake := range strings.SplitSeq(w.failure, "\n") {
		w.cfg.Log.Error(fmt.Sprintf("%s: what was read %s, those in force stay", w.cfg.What, verdict), "error", mistake, "version", w.version)
	}
}

// One reads a single file, for [Config.Read]. what begins the text of its errors.
func One(what, path string) func() ([]File, error) {
	return func() ([]File, error) {
		info, err := os.Stat(path)
		if err == nil && info.Size() > MaxFile {
			err = fmt.Errorf("%s: %d bytes, at most 16 MiB are read", path, info.Size())
		}
		var data []byte
		if err == nil {
			data, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return []File{{Name: path, Data: data, Modified: info.ModTime()}}, nil
	}
}
