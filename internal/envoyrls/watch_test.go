package envoyrls

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/watch"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// follow runs a watcher until the test ends. pass lets it read what has changed.
func follow(t *testing.T, w *watch.Watcher) (pass func()) {
	fatal.If(t, w.Load())
	go func() { _ = w.Run(t.Context(), nil) }()
	return func() { time.Sleep(2 * time.Second); synctest.Wait() }
}

// TestWatchedDirectory: one bad file changes nothing and is reported with file and
// line; when it is right, everything comes into force.
func TestWatchedDirectory(t *testing.T) {
	dir := t.TempDir()
	d, e := filepath.Join(dir, "d.yaml"), filepath.Join(dir, "e.yaml")
	proc.WriteFile(t, d, "domain: d\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 5 } }]\n")
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, nil))
		b := newBench(t, "")
		pass := follow(t, WatchConfig(dir, descriptor.Options{}, b.Server, log, b.metrics))

		b.play(t, steps{{request(of("user", "a")), "OK: OK 4"}})
		proc.WriteFile(t, d, "domain: d\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 9 } }]\n")
		proc.WriteFile(t, e, "domain: e\ndescriptors: [{ key: x, colour: red }]\n")
		pass()
		pass()
		b.play(t, steps{{request(of("user", "a")), "OK: OK 3"}})
		if n := strings.Count(logged.String(), "e.yaml:2:"); n != 1 {
			t.Errorf("the mistake is logged %d times: %s", n, logged.String())
		}
		b.has("weir_ratelimit_config_ok 0")
		proc.WriteFile(t, e, "domain: e\ndescriptors: [{ key: x }]\n")
		pass()
		b.play(t, steps{{request(of("user", "a")), "OK: OK 6"}}) // the counter went on
		b.has("weir_ratelimit_config_ok 1")
	})
}

// TestBindingsBeforeTheirRule: a binding whose rule is not there yet comes into force when the rule does.
func TestBindingsBeforeTheirRule(t *testing.T) {
	path := proc.WriteFile(t, filepath.Join(t.TempDir(), "bindings.yaml"), "bindings: []\n")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, specYAML)
		pass := follow(t, WatchBindings(path, b.Server, slog.New(slog.DiscardHandler), b.metrics))

		proc.WriteFile(t, path, "bindings: [{ domain: d, descriptor: [{ key: user }], rule: per-user }]\n")
		pass()
		b.play(t, steps{{request(of("user", "a")), "OK: OK 4"}})
		b.has("weir_ratelimit_bindings_config_ok 0")
		b.setRules(boundRules)
		pass()
		b.play(t, steps{{request(of("user", "a")), "OK: OK 2"}})
		b.has("weir_ratelimit_bindings_config_ok 1")
	})
}
