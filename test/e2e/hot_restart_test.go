package e2e

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const hotRestartRules = `
rules:
  - { name: exact, match: { path: /exact }, key: [], limit: 200/1d, algorithm: fixed_window, consistency: exact,
      timeout: 1s, on_failure: { action: deny, status: 429 } }
  - { name: leased, match: { path: /leased }, key: [], limit: 200/1d, algorithm: fixed_window, timeout: 1s,
      on_failure: { action: deny, status: 429 } }
  - { name: slot, match: { path: /slot }, key: [], limit: 1, algorithm: concurrency, timeout: 1s,
      on_failure: { action: deny, status: 429 } }
`

// A hot restart of Envoy (--restart-epoch) replaces the process, and with it the table
// of leases, while requests go on. What is counted: the units of exact rules, to the
// last one; those of leased ones, less what the old process had on lease, which is
// never spent twice; a stream that is open in the old process, which keeps its slot
// until it ends. No request fails.
func TestHotRestart(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	var upstream stack.InFlight
	s := start(t, stack.Config{PoPs: 1, Rules: hotRestartRules, Upstream: upstream.Track(http.HandlerFunc(streams)), HotRestart: true,
		Plugin: map[string]any{"rules": compiled(t, hotRestartRules)}}) // or before_rules decides until they are fetched
	pop := s.PoPs[0]
	ended := make(chan error)
	go func() { ended <- stream(t.Context(), pop.Addr, "/slot?for=60s") }()
	proc.Eventually(t, 10*time.Second, "the stream is at the upstream", func() bool { return upstream.Now() == 1 })

	var ok [2]atomic.Int64
	var rejected, done atomic.Bool
	var clients sync.WaitGroup
	for i, path := range []string{"/exact", "/leased"} {
		clients.Go(func() {
			for !done.Load() || ok[0].Load() < 200 && !rejected.Load() {
				switch status := statusOf(t, pop.Addr, path); status {
				case http.StatusOK:
					ok[i].Add(1)
				case http.StatusTooManyRequests:
					rejected.Store(rejected.Load() || i == 0)
				default:
					t.Errorf("%s: status %d", path, status)
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	old := pop.HotRestart()
	for !old.Exited() {
		if status := statusOf(t, pop.Addr, "/slot"); status != 429 && !old.Exited() {
			t.Errorf("status %d beside a stream in the old process that holds the only slot, want 429", status)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("the stream ended with the old process: %v", <-ended)
	done.Store(true)
	clients.Wait()
	t.Logf("admitted %d of exact and %d of leased, limits of 200", ok[0].Load(), ok[1].Load())
	if n := ok[0].Load(); n != 200 {
		t.Errorf("an exact limit of 200 admitted %d", n)
	}
	if n := ok[1].Load(); n > 200 || n < 100 {
		t.Errorf("a leased limit of 200 admitted %d, want 100 to 200", n)
	}
	proc.Eventually(t, 5*time.Second, "the slot of the old process lapses", func() bool { return statusOf(t, pop.Addr, "/slot") == 200 })
}
