package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const fewSlotsRules = `
  - { name: one, match: { path: { prefix: /one } }, timeout: 1s, key: [], limit: 1, algorithm: concurrency,
      on_failure: { action: deny, status: 503 } }
  - { name: two, match: { path: { prefix: /two } }, timeout: 1s, key: [], limit: 2, algorithm: concurrency,
      on_failure: { action: deny, status: 503 } }
  - { name: one-per-pop, match: { path: /local }, key: [], limit: 1, algorithm: concurrency, scope: pop }
`

// A slot that is free anywhere in a PoP is to be had by all of its workers: requests
// that follow each other, over connections of their own, are never rejected by a limit
// of 1 or 2, however many workers there are.
func freeInTheWholePoP(t *testing.T, p *stack.PoP) {
	paths := []string{"/one", "/two", "/local"}
	proc.Together(len(paths), func(i int) {
		proc.Eventually(t, 5*time.Second, "the other PoP has given "+paths[i]+" back", func() bool { return statusOf(t, p.Addr, paths[i]) == http.StatusOK })
		inTurn(t, p.Addr, paths[i], 60)
	})
}

// Never are more open than the limit.
func slotsAreNotExceeded(t *testing.T, s *stack.Stack, one, two *stack.InFlight) {
	proc.Together(2, func(i int) { overlap(t, s, []string{"/one", "/two"}[i], []*stack.InFlight{one, two}[i], i+1) })
}

// inTurn sends requests one after the other, each over a connection of its own, and
// with breaks in which slots are given back. None may be rejected; a slow machine may
// have no answer from the region within the second that a request waits.
func inTurn(t *testing.T, addr, path string, requests int) {
	t.Helper()
	statuses := make(map[int]int)
	for i := range requests {
		statuses[statusOf(t, addr, path)]++
		if i%20 == 19 {
			time.Sleep(time.Duration(i%130) * time.Millisecond)
		}
	}
	if t.Logf("%s: %v in turn", path, statuses); statuses[200] < requests/2 || statuses[200]+statuses[503] < requests {
		t.Errorf("%s: %v in turn, want none rejected with 429", path, statuses)
	}
}

// statusOf returns the status of one request over a connection of its own; 0 if there is none.
func statusOf(t *testing.T, addr, path string) int {
	t.Helper()
	r, err := stack.Do(addr, http.MethodGet, path, "")
	if err != nil {
		t.Error(err)
	}
	return r.Status
}

// overlap offers more streams than there are slots to all PoPs.
func overlap(t *testing.T, s *stack.Stack, path string, upstream *stack.InFlight, slots int) {
	t.Helper()
	time.Sleep(300 * time.Millisecond) // what one PoP holds comes back
	tally := offer(t, drive.Load{
		Addrs: s.Addrs(), Conns: 16, Request: drive.Get(path + "?for=5ms"), Count: 800, PerSecond: 800,
	})
	t.Logf("%s: %v, at most %d at a time", path, tally.Status, upstream.Most())
	if most := upstream.Most(); most > slots {
		t.Errorf("%s: %d streams at a time at the upstream, the limit is %d", path, most, slots)
	}
	if tally.OK() < 10 || tally.Status[429] == 0 {
		t.Errorf("%s: %v, want some rejected, and the slots used all the time", path, tally.Status)
	}
}

// handOver frees a slot in one PoP, and takes it in the other.
func handOver(t *testing.T, s *stack.Stack, upstream *stack.InFlight) {
	t.Helper()
	for i := range 2 {
		from, to := s.PoPs[i%2].Addr, s.PoPs[(i+1)%2].Addr
		proc.Eventually(t, 5*time.Second, "the slot is free", func() bool { return statusOf(t, from, "/one") == http.StatusOK })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = stream(ctx, from, "/one?for=60s")
		}()
		proc.Eventually(t, 5*time.Second, "the stream is at the upstream", func() bool { return upstream.Now() == 1 })
		if status := statusOf(t, to, "/one"); status != 429 {
			t.Errorf("status %d beside a stream in the other PoP, want 429", status)
		}
		cancel()
		<-ended
		freed := time.Now() // about two lease intervals of 100 ms, or longer on a busy machine; a slot that leaks lapses after 60 s
		proc.Eventually(t, 5*time.Second, "the slot is to be had in the other PoP", func() bool { return statusOf(t, to, "/one") == http.StatusOK })
		t.Logf("the slot was to be had in the other PoP after %v", time.Since(freed))
	}
}
