package envoyrls

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/watch"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// follow runs a watcher. pass lets it read what has changed.
func follow(t *testing.T, w *watch.Watcher) (pass, end func()) {
	fatal.If(t, w.Load())
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- w.Run(ctx, nil) }()
	return func() { time.Sleep(2 * time.Second); synctest.Wait() }, func() {
		cancel()
		fatal.If(t, <-done)
	}
}

// TestWatchedDirectory: one bad file changes nothing and is reported with file and
// line; when it is right, everything comes into force.
func TestWatchedDirectory(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	put("d.yaml", "domain: d\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 5 } }]\n")
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, nil))
		b := newBench(t, "")
		w := WatchConfig(dir, descriptor.Options{}, b.Server, log, b.metrics)
		pass, end := follow(t, w)
		defer end()

		b.play(t, steps{{request(of("user", "a")), "OK: OK 4"}})
		put("d.yaml", "domain: d\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 9 } }]\n")
		put("e.yaml", "domain: e\ndescriptors: [{ key: x, colour: red }]\n")
		pass()
		pass()
		b.play(t, steps{{request(of("user", "a")), "OK: OK 3"}})
		if n := strings.Count(logged.String(), "e.yaml:2:"); n != 1 || !b.metric("weir_ratelimit_config_ok 0") {
			t.Errorf("the mistake is logged %d times: %s", n, logged.String())
		}
		put("e.yaml", "domain: e\ndescriptors: [{ key: x }]\n")
		pass()
		b.play(t, steps{{request(of("user", "a")), "OK: OK 6"}}) // the counter went on
		if !b.metric("weir_ratelimit_config_ok 1") {
			t.Error("it is not in force")
		}
	})
}

// TestBindingsBeforeTheirRule: a binding whose rule is not there yet comes into force when the rule does.
func TestBindingsBeforeTheirRule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bindings.yaml")
	put := func(text string) {
		t.Helper()
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	}
	put("bindings: []\n")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, specYAML)
		w := WatchBindings(path, b.Server, slog.New(slog.DiscardHandler), b.metrics)
		pass, end := follow(t, w)
		defer end()

		put("bindings: [{ domain: d, descriptor: [{ key: user }], rule: per-user }]\n")
		pass()
		b.play(t, steps{{request(of("user", "a")), "OK: OK 4"}})
		if !b.metric("weir_ratelimit_bindings_config_ok 0") {
			t.Error("a binding without its rule is in order")
		}
		b.setRules(boundRules)
		pass()
		b.play(t, steps{{request(of("user", "a")), "OK: OK 2"}})
		if !b.metric("weir_ratelimit_bindings_config_ok 1") {
			t.Error("it is not in force")
		}
	})
}
