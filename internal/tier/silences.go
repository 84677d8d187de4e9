package tier

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/statefile"
)

// saveSilences is the time between two saves of when regions were silent. After a kill each of
// them counts as silent since the last save, and may do so for silence.After.
const saveSilences = time.Second

// silences keeps when the regions were silent, beside the state file, whose lock it relies on:
// it is saved more often than the counters, and is small.
type silences struct {
	path  string
	store *aggregator.Store
	log   *slog.Logger

	mu     sync.Mutex // one save at a time
	failed bool       // the last one
}

// newSilences loads what the process before has saved.
func newSilences(path string, s *aggregator.Store, log *slog.Logger) *silences {
	_, err := statefile.Read(path, s.Load)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Error("could not read which regions were silent: static shares that they take of windows that began before are not withheld", "file", path, "error", err)
	}
	return &silences{path: path, store: s, log: log}
}

// Run saves, until ctx ends.
func (s *silences) Run(ctx context.Context) error {
	repeat.Every(ctx, saveSilences, s.save)
	return nil
}

// save writes the file, if there was a sign of a region. A failure is logged when the save before succeeded.
func (s *silences) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.store.HasNewSign() {
		return
	}
	err := s.write()
	if err != nil && !s.failed {
		s.log.Error("could not save which regions are silent; the file has what the last save wrote", "file", s.path, "error", err)
	}
	s.failed = err != nil
}

func (s *silences) write() error {
	w, err := statefile.Create(s.path, statefile.Header{Saved: time.Now().UTC(), PID: os.Getpid()})
	if err != nil {
		return err
	}
	s.store.Save(w.Put)
	_, err = w.Commit()
	return err
}

const (
	// shareEvery is the time between two exchanges of aggregators on one Redis: a region that calls another
	// one must not look silent here, which takes silence.After.
	shareEvery = 250 * time.Millisecond
	// shareFirst is that until one succeeds: nothing is granted from static shares before.
	shareFirst = 20 * time.Millisecond
)

// shareSilences exchanges with the other aggregators when regions were silent, until ctx ends.
func shareSilences(ctx context.Context, s *aggregator.Store, log *slog.Logger) error {
	var seldom repeat.Seldom
	began := time.Now()
	share := func() bool {
		one, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := s.Share(one)
		if err != nil && ctx.Err() == nil && time.Since(began) > time.Second && seldom.Now(time.Minute) {
			log.Warn("could not exchange with other aggregators when regions were silent: regions that call another one may look silent here", "error", err)
		}
		return err == nil
	}
	first, end := context.WithCancel(ctx)
	repeat.Every(first, shareFirst, func() {
		if share() {
			end()
		}
	})
	end()
	repeat.Every(ctx, shareEvery, func() { share() })
	return nil
}
