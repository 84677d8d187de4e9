// Package rulewatch keeps the rules in force equal to a rules file, as long as
// that is right: a file with a mistake never replaces good rules.
package rulewatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// every is how often the file is read. Its content is compared, not its times:
	// that sees every kind of change, a swapped symbolic link as Kubernetes uses
	// and an edit that keeps time and size, and costs under a millisecond.
	every = time.Second
	// settle is how long new content must stand before it counts, so that a file
	// which is being written is not taken for a short one.
	settle = 100 * time.Millisecond
	// maxFile bounds a rules file, in bytes.
	maxFile = 16 << 20
)

// Watcher reads one rules file again and again. Create it with [New].
type Watcher struct {
	path  string
	apply func(*rule.Set) error
	log   *slog.Logger

	// These belong to whoever calls Load or Run.
	judged  []byte // the content that was last parsed
	good    bool   // it had no mistake
	failure string // what is wrong as it was last told; empty if nothing is
	version string // in force

	ok      telemetry.Gauge
	info    *telemetry.GaugeVec
	reloads *telemetry.CounterVec
	loaded  atomic.Int64 // Unix time in nanoseconds at which the rules came into force; 0: never
}

// New makes a watcher of the file at path. apply puts a set of rules in force; it
// is called by Load and Run only; an error refuses the set, as a mistake does.
func New(path string, apply func(*rule.Set) error, log *slog.Logger, r *telemetry.Registry) *Watcher {
	w := &Watcher{
		path:    path,
		apply:   apply,
		log:     log,
		ok:      r.Gauge("weir_rules_config_ok", "1 if the rules file, as it was last read, is in force; 0 if it has mistakes or cannot be read, and older rules are."),
		info:    r.Gauges("weir_rules_info", "The version of the rules in force; always 1.", "version"),
		reloads: r.Counters("weir_rules_reloads_total", "Changed rules files, by whether they came into force.", "result"),
	}
	w.reloads.WithLabelValues("applied")
	w.reloads.WithLabelValues("refused")
	r.GaugeFunc("weir_rules_age_seconds", "Time since the rules in force were read.", func() float64 {
		if loaded := w.loaded.Load(); loaded != 0 {
			return time.Since(time.Unix(0, loaded)).Seconds()
		}
		return 0
	})
	return w
}

// Load reads the file once and puts its rules in force. The error has a line for
// each mistake.
func (w *Watcher) Load() error {
	data, err := read(w.path)
	if err != nil {
		return err
	}
	set, err := rulefile.Parse(w.path, data)
	if err != nil {
		return err
	}
	w.judged = data
	return w.enforce(set)
}

// Run reads the file every second, and at once when reload receives, until ctx
// ends.
func (w *Watcher) Run(ctx context.Context, reload <-chan os.Signal) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			w.judged, w.failure = nil, "" // whatever it says is told again
			w.look(ctx)
		case <-tick.C:
			w.look(ctx)
		}
	}
}

// look reads the file and judges what is new in it.
func (w *Watcher) look(ctx context.Context) {
	data, err := read(w.path)
	switch {
	case err != nil:
		w.refuse(err)
	case w.judged != nil && bytes.Equal(data, w.judged):
		if w.good && w.failure != "" { // it could not be read meanwhile
			w.failure = ""
			w.ok.Set(1)
		}
	case settled(ctx, w.path, data):
		w.judge(data)
	}
}

// settled reports whether the file's content is not just being written.
func settled(ctx context.Context, path string, data []byte) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(settle):
	}
	later, err := read(path)
	return err == nil && bytes.Equal(later, data)
}

func (w *Watcher) judge(data []byte) {
	set, err := rulefile.Parse(w.path, data)
	w.judged = data
	if err == nil {
		err = w.enforce(set)
	}
	if w.good = err == nil; !w.good {
		w.refuse(err)
	}
}

// enforce puts rules in force.
func (w *Watcher) enforce(set *rule.Set) error {
	if set.Version != w.version {
		if err := w.apply(set); err != nil {
			return err
		}
	}
	w.good, w.failure = true, ""
	w.ok.Set(1)
	if set.Version == w.version {
		w.log.Info("rules: read again, they mean the same", "file", w.path, "version", set.Version)
		return nil
	}
	w.info.Reset()
	w.info.WithLabelValues(set.Version).Set(1)
	w.loaded.Store(time.Now().UnixNano())
	w.reloads.WithLabelValues("applied").Inc()
	w.log.Info("rules: in force", "file", w.path, "version", set.Version, "rules", set.Len(), "before", w.version)
	w.version = set.Version
	return nil
}

// refuse tells what is wrong with the file, each mistake once for as long as the
// whole of them stays the same.
func (w *Watcher) refuse(err error) {
	w.ok.Set(0)
	if err.Error() == w.failure {
		return
	}
	w.failure = err.Error()
	w.reloads.WithLabelValues("refused").Inc()
	var mistakes rulefile.Errors
	if !errors.As(err, &mistakes) {
		w.log.Error("rules: the file cannot be used, the rules in force stay", "error", err, "version", w.version)
		return
	}
	for i := range mistakes {
		w.log.Error("rules: the file has a mistake, the rules in force stay", "error", mistakes[i].Error(), "version", w.version)
	}
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("%s: %d bytes, a rules file has at most 16 MiB", path, info.Size())
	}
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return data, nil
}
