package follow

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

const (
	first  = "rules: [{ name: a, key: [client_ip], limit: 10/1m }]\n"
	second = "rules: [{ name: a, key: [client_ip], limit: 20/1m }]\n"
)

// seen is what came of rules that are followed.
type seen struct {
	metrics *telemetry.Registry

	mu     sync.Mutex
	sets   []*rule.Set // that were applied, in order
	log    proc.Lines
	reject error // what applying answers
}

func (s *seen) apply(set *rule.Set) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets = append(s.sets, set)
	return s.reject
}

// answer makes applying answer this.
func (s *seen) answer(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reject = err
}

// last is the set that was applied last; nil: none was.
func (s *seen) last() *rule.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sets) == 0 {
		return nil
	}
	return s.sets[len(s.sets)-1]
}

// limit is that of the first rule of the last set; 0: there is none.
func (s *seen) limit() int64 {
	if set := s.last(); set != nil {
		return set.Rule(0).Limits[0].Limit.Count
	}
	return 0
}

// metric reports whether the metrics have a line.
func (s *seen) metric(line string) bool {
	return strings.Contains(measure.Page(s.metrics.Handler()), line+"\n")
}

// watched is a watcher of a file in virtual time, and what came of it.
type watched struct {
	seen
	t       *testing.T
	path    string
	watcher *watch.Watcher
	reload  chan os.Signal
}

func (w *watched) write(text string) {
	w.t.Helper()
	fatal.If(w.t, os.WriteFile(w.path, []byte(text), 0o600))
}

// follow runs a test beside a watcher of a file that begins with the first rules. pass lets two seconds pass.
func follow(t *testing.T, path string, run func(w *watched, pass func())) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, path: path, reload: make(chan os.Signal, 1)}
		w.metrics = telemetry.NewRegistry("test")
		if _, err := os.Stat(path); err != nil {
			w.write(first)
		}
		w.watcher = New(path, w.apply, slog.New(slog.NewTextHandler(&w.log, nil)), w.metrics)
		fatal.If(t, w.watcher.Load())
		go func() { _ = w.watcher.Run(t.Context(), w.reload) }()
		run(w, func() { time.Sleep(2 * time.Second); synctest.Wait() })
	})
}

func TestChangeComesIntoForce(t *testing.T) {
	follow(t, filepath.Join(t.TempDir(), "rules.yaml"), func(w *watched, pass func()) {
		pass()
		if len(w.sets) != 1 || len(w.log.With()) != 1 {
			t.Fatalf("a file that stays the same was applied %d times: %q", len(w.sets), w.log.With())
		}
		w.write(second)
		pass()
		if len(w.sets) != 2 || w.limit() != 20 || !w.metric("weir_rules_config_ok 1") || !w.metric(`weir_rules_info{version="`+w.sets[1].Version+`"} 1`) ||
			w.metric(`weir_rules_info{version="`+w.sets[0].Version+`"} 1`) || !w.metric(`weir_rules_reloads_total{result="applied"} 2`) {
			t.Errorf("applied %d times, limit %d", len(w.sets), w.limit())
		}
		w.write("# the same\n" + second)
		pass()
		if len(w.log.With("read again, unchanged")) != 1 || w.metric(`weir_rules_reloads_total{result="applied"} 3`) {
			t.Errorf("rules that mean the same count as others")
		}
		if n := len(w.sets); n != 3 || w.sets[2].Version != w.sets[1].Version || w.sets[2].Revision <= w.sets[1].Revision {
			t.Errorf("applied %d times; want rules that mean the same with the file's newer time", n)
		}
	})
}

// A mistake is logged once, each by itself, and the rules in force stay.
func TestMistakesAreToldOnce(t *testing.T) {
	follow(t, filepath.Join(t.TempDir(), "rules.yaml"), func(w *watched, pass func()) {
		w.write("rules: [{ name: a, key: [client_ip], limit: 20/1m, colour: red, scope: moon }]\n")
		pass()
		pass()
		if len(w.log.With("colour")) != 1 || len(w.log.With("moon")) != 1 || len(w.log.With(w.path+":1:")) != 2 {
			t.Errorf("logged %q", w.log.With())
		}
		if len(w.sets) != 1 || !w.metric("weir_rules_config_ok 0") || !w.metric(`weir_rules_reloads_total{result="rejected"} 1`) {
			t.Errorf("applied %d times", len(w.sets))
		}
		w.reload <- os.Interrupt
		synctest.Wait()
		pass()
		if len(w.log.With("moon")) != 2 {
			t.Errorf("after a signal: %q, want the mistakes again", w.log.With())
		}
		fatal.If(w.t, os.Rename(w.path, w.path+".gone"))
		pass()
		if problem := w.watcher.Problem(); !strings.Contains(problem, "no such file") {
			w.t.Errorf("a file that is away: %s", problem)
		}
		fatal.If(w.t, os.Rename(w.path+".gone", w.path))
		pass()
		if problem := w.watcher.Problem(); !strings.Contains(problem, "colour") || !w.metric("weir_rules_config_ok 0") {
			w.t.Errorf("the same file, which is back: %s", problem)
		}
		w.write(first)
		pass()
		if w.limit() != 10 || !w.metric("weir_rules_config_ok 1") || w.metric(`weir_rules_reloads_total{result="applied"} 2`) {
			t.Errorf("the rules in force came back: limit %d", w.limit())
		}
	})
}

// Rules that cannot be put in force are as good as a mistake, but what rejects them
// may change: they are tried again, and logged once.
func TestRejectedByTheService(t *testing.T) {
	follow(t, filepath.Join(t.TempDir(), "rules.yaml"), func(w *watched, pass func()) {
		w.answer(errors.New("too large"))
		w.write(second)
		pass()
		pass()
		if len(w.log.With("too large")) != 1 || len(w.sets) < 3 || !w.metric("weir_rules_config_ok 0") {
			t.Errorf("applied %d times; logged %q", len(w.sets), w.log.With())
		}
		w.answer(nil)
		pass()
		tries := len(w.sets)
		pass()
		if len(w.sets) != tries || len(w.log.With("rules: in force")) != 2 || !w.metric("weir_rules_config_ok 1") || !w.metric(`weir_rules_reloads_total{result="rejected"} 1`) {
			t.Errorf("applied %d times, then %d; logged %q", tries, len(w.sets), w.log.With())
		}
	})
}

// TestDirectory: a change of one file of a directory makes rules that are newer.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, limit int) {
		t.Helper()
		proc.WriteFile(t, filepath.Join(dir, name+".yaml"), fmt.Sprintf("rules: [{ name: %s, key: [], limit: %d/1m }]\n", name, limit))
	}
	put("a", 1)
	put("b", 1)
	follow(t, dir, func(w *watched, pass func()) {
		put("b", 2)
		pass()
		if last := w.last(); last.Rule(1).Limits[0].Limit.Count != 2 || last.Revision <= w.sets[0].Revision {
			t.Errorf("the change was not seen: %s", last.Encode())
		}
	})
}
