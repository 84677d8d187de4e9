package tier

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/watch"
)

// recorder is an extension that records its calls.
type recorder struct {
	mu     sync.Mutex
	calls  []string
	served chan struct{} // closed by Shut
	fails  error         // of Serve, at once
}

func (r *recorder) called(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, name)
}

func (r *recorder) Handle(*http.ServeMux)      { r.called("handle") }
func (r *recorder) Watchers() []*watch.Watcher { return nil }
func (r *recorder) RulesChanged()              { r.called("rules") }
func (r *recorder) SetReady(ready bool) {
	r.called(map[bool]string{true: "ready", false: "not ready"}[ready])
}
func (r *recorder) Drain()       { r.called("drain") }
func (r *recorder) Close() error { r.called("close"); return nil }

func (r *recorder) Serve() error {
	if r.fails == nil {
		<-r.served
	}
	return r.fails
}

func (r *recorder) Shut(time.Duration) error {
	r.called("shut")
	close(r.served)
	return nil
}

// testConfig has free ports, no state file and no rules.
func testConfig() *Config {
	return &Config{
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Replicas: 1, State: "off", Front: "off",
		MaxKeys: 10, MaxMemory: 1 << 20, MaxHolders: 10, MaxHoldersPerAddress: 10, MaxStreams: 10, HeaderTimeout: time.Second, IdleTimeout: time.Minute,
	}
}

func noHangups() <-chan os.Signal { return nil }

// runRecorded runs a tier with an extension until ctx ends.
func runRecorded(ctx context.Context, t *testing.T, cfg *Config, r *recorder) error {
	t.Helper()
	made, err := New(cfg, Program{Name: "test"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	made.Extend(r)
	return made.Run(ctx, noHangups)
}

// runBeside runs a tier beside the test, until its end.
func runBeside(t *testing.T, cfg *Config, p Program, log *slog.Logger) *Tier {
	t.Helper()
	made, err := New(cfg, p, log)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() { ended <- made.Run(ctx, noHangups) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return made
}

// TestExtension: an extension is ready before it is served, and ends in order.
func TestExtension(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &recorder{served: make(chan struct{})}
	if err := runRecorded(ctx, t, testConfig(), r); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ready", "handle", "not ready", "drain", "shut", "close"}; !slices.Equal(r.calls, want) {
		t.Errorf("calls %q, want %q", r.calls, want)
	}
}

// TestExtensionFails: an extension that fails ends the tier in order, with its error.
func TestExtensionFails(t *testing.T) {
	broken := errors.New("broken")
	r := &recorder{served: make(chan struct{}), fails: broken}
	if err := runRecorded(t.Context(), t, testConfig(), r); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if want := []string{"drain", "shut", "close"}; !slices.Equal(r.calls[len(r.calls)-3:], want) {
		t.Errorf("calls %q, want %q at the end", r.calls, want)
	}
}

// TestExtensionIsClosed: also when a port cannot be opened.
func TestExtensionIsClosed(t *testing.T) {
	cfg, r := testConfig(), new(recorder)
	cfg.AdminListen = "256.0.0.1:1"
	if err := runRecorded(t.Context(), t, cfg, r); err == nil {
		t.Fatal("no error")
	}
	if want := []string{"ready", "close"}; !slices.Equal(r.calls, want) {
		t.Errorf("calls %q, want %q", r.calls, want)
	}
}

// TestNoRules: a tier with a rules file that has a mistake is not made.
func TestNoRules(t *testing.T) {
	cfg := testConfig()
	cfg.Rules = filepath.Join(t.TempDir(), "none.yaml")
	if _, err := New(cfg, Program{Name: "test"}, slog.New(slog.DiscardHandler)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that the file does not exist", err)
	}
}
