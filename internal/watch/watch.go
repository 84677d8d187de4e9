// Package watch reads files again when they change and puts their content in force. Files with a mistake never replace a correct
// configuration.
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

	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// every is how often the files are read. Their content is compared and not only their
	// times: this detects every kind of change, such as a swapped symbolic link (Kubernetes)
	// and an edit that keeps time and size, and takes less than a millisecond.
	every = time.Second
	// settle is how long new content must stay the same before it is used, so that a
	// half-written file is not taken for a whole one.
	settle = 100 * time.Millisecond
)

// Candidate is a configuration without mistakes.
type Candidate struct {
	// Version identifies the meaning: a candidate with the version in force is not
	// applied.
	Version string
	// Revision orders versions. A candidate is also applied if only this differs.
	Revision uint64
	// Apply puts it in force. An error rejects it like a mistake, but only for now: the
	// cause may disappear, so Apply is called again each time the files are read.
	Apply func() error
	// About has further fields for the log, as names and values.
	About []any
}

// Config is what a watcher needs.
type Config struct {
	// What names the configuration in one word: "rules". It begins every message and,
	// behind "weir_", the names of metrics.
	What string
	// Path is the file or directory, for messages.
	Path string
	// Read reads the files. A file that was only touched is parsed again if its time of
	// change is given.
	Read func() ([]rulefile.File, error)
	// Changed receives when Read would return something else: the files are read at once
	// then. Nil: they are read every second only.
	Changed <-chan struct{}
	// Whole is set if Read never returns half of a change.
	Whole bool
	// Parse makes a candidate of the files. The text of its error has a line for each mistake.
	Parse func([]rulefile.File) (Candidate, error)

	Log     *slog.Logger
	Metrics *telemetry.Registry
}

// Watcher reads files again and again. Create it with [New].
type Watcher struct {
	cfg Config

	// These belong to the goroutine that calls Load or Run.
	judged   []rulefile.File // the last files that were parsed; nil: none
	wrong    error           // their mistakes; nil: none
	version  string          // in force
	revision uint64          // likewise

	ok      telemetry.Gauge
	info    *telemetry.GaugeVec
	reloads *telemetry.CounterVec
	loaded  atomic.Int64           // Unix time in nanoseconds at which it came into force; 0: never
	problem atomic.Pointer[string] // the last error in the log; nil: the files are good
}

// Problem is why the files, as they were last read, are not in force; empty: they are. It is
// safe for concurrent use.
func (w *Watcher) Problem() string {
	if p := w.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// New makes a watcher. Only Load and Run apply candidates.
func New(c Config) *Watcher {
	r, metric := c.Metrics, "weir_"+c.What
	w := &Watcher{
		cfg:     c,
		ok:      r.Gauge(metric+"_config_ok", "1 if the "+c.What+", as they were last read, are in force; 0 if they have mistakes or cannot be read, and older ones are."),
		info:    r.Gauges(metric+"_info", "The version of the "+c.What+" in force; always 1.", "version"),
		reloads: r.Counters(metric+"_reloads_total", "Changes of the "+c.What+", by whether they came into force.", "result"),
	}
	w.reloads.WithLabelValues("applied")
	w.reloads.WithLabelValues("rejected")
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
	return w.Begin(files, candidate)
}

// Begin is Load for files that were read and parsed already.
func (w *Watcher) Begin(files []rulefile.File, c Candidate) error {
	if err := w.enforce(c); err != nil {
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
			w.judged = nil
			w.problem.Store(nil) // the outcome is logged again in any case
			w.look(ctx)
		case <-tick.C:
			w.look(ctx)
		case <-w.cfg.Changed:
			w.look(ctx)
		}
	}
}

// look reads the files, and parses them if they are new.
func (w *Watcher) look(ctx context.Context) {
	files, err := w.cfg.Read()
	switch {
	case err != nil:
		w.reject(err, "cannot be used")
	case w.judged != nil && same(files, w.judged):
		switch { // they could not be read in between
		case w.wrong != nil:
			w.reject(w.wrong, "is wrong")
		case w.Problem() != "":
			w.problem.Store(nil)
			w.ok.Set(1)
		}
	case w.cfg.Whole || w.settled(ctx, files):
		w.judge(files)
	}
}

// settled reports whether the files stay the same for a while.
func (w *Watcher) settled(ctx context.Context, files []rulefile.File) bool {
	if !repeat.Sleep(ctx, settle) {
		return false
	}
	later, err := w.cfg.Read()
	return err == nil && same(later, files)
}

func same(a, b []rulefile.File) bool {
	return slices.EqualFunc(a, b, func(a, b rulefile.File) bool {
		return a.Name == b.Name && a.Modified.Equal(b.Modified) && bytes.Equal(a.Data, b.Data)
	})
}

func (w *Watcher) judge(files []rulefile.File) {
	candidate, err := w.cfg.Parse(files)
	w.judged = files
	if err == nil {
		if err = w.enforce(candidate); err != nil {
			w.judged = nil // Apply may succeed later with the same files
		}
	}
	if w.wrong = err; err != nil {
		w.reject(err, "is wrong")
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
	w.wrong = nil
	w.problem.Store(nil)
	w.ok.Set(1)
	if c.Version == w.version {
		w.cfg.Log.Info(w.cfg.What+": read again, unchanged", about...)
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

// reject logs the mistakes of the files, once for as long as they stay the same.
func (w *Watcher) reject(err error, reason string) {
	w.ok.Set(0)
	problem := err.Error()
	if problem == w.Problem() {
		return
	}
	w.problem.Store(&problem)
	w.reloads.WithLabelValues("rejected").Inc()
	for mistake := range strings.SplitSeq(problem, "\n") {
		w.cfg.Log.Error(fmt.Sprintf("%s: new version %s; the last one stays in force", w.cfg.What, reason), "error", mistake, "version", w.version)
	}
}

// NewFile makes a watcher of a single file. what and parse are as in [Config].
func NewFile(what, path string, parse func(rulefile.File) (Candidate, error), log *slog.Logger, r *telemetry.Registry) *Watcher {
	return New(Config{
		What: what,
		Path: path,
		Read: func() ([]rulefile.File, error) {
			f, err := rulefile.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
			return []rulefile.File{f}, nil
		},
		Parse:   func(files []rulefile.File) (Candidate, error) { return parse(files[0]) },
		Log:     log,
		Metrics: r,
	})
}
