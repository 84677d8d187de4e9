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

// A slot that is free anywhere in a PoP is to be had by all of its workers: requests that follow each other, over connections of
// their own, are never rejected by a limit of 1 or 2, however many workers there are. Never are more open than the limit.
func slotsAreFreeAndNotExceeded(t *testing.T, s *stack.Stack, one, two *stack.InFlight) {
	paths, upstreams := []string{"/one", "/two", "/local"}, []*stack.InFlight{one, two}
	for _, p := range s.PoPs {
		proc.Together(len(paths), func(i int) {
			thrice(t, func(string) bool { return inTurn(t, p.Addr, paths[i], 60) })
		})
	}
	proc.Together(len(upstreams), func(i int) {
		thrice(t, func(string) bool { return overlap(t, s, paths[i], upstreams[i], i+1) })
	})
}

// inTurn sends requests one after the other, each over a connection of its own, and with breaks in which slots are given back. None
// may be rejected; a slow machine may have no answer from the region within the second that a request waits. The slot of such an
// answer is not free at once: inTurn is false if a request is rejected after one.
func inTurn(t *testing.T, addr, path string, requests int) bool {
	t.Helper()
	proc.Eventually(t, 5*time.Second, "the other PoP has given "+path+" back", func() bool { return statusOf(t, addr, path) == http.StatusOK })
	statuses := make(map[int]int)
	for i := range requests {
		status := statusOf(t, addr, path)
		if statuses[status]++; status == 429 && statuses[503] > 0 {
			return false
		}
		if i%20 == 19 {
			time.Sleep(time.Duration(i%130) * time.Millisecond)
		}
	}
	if t.Logf("%s: %v in turn", path, statuses); statuses[200] < requests/2 || statuses[200]+statuses[503] < requests {
		t.Errorf("%s: %v in turn, want none rejected with 429", path, statuses)
	}
	return true
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

// overlap offers more streams than there are slots to all PoPs. It is false unless some are rejected, and the slots are used all the time.
func overlap(t *testing.T, s *stack.Stack, path string, upstream *stack.InFlight, slots int) bool {
	t.Helper()
	time.Sleep(300 * time.Millisecond) // what one PoP holds comes back
	tally := try(t, drive.Load{Addrs: s.Addrs(), Conns: 16, Request: drive.Get(path + "?for=5ms"), Count: 800, PerSecond: 800})
	t.Logf("%s: %v, at most %d at a time", path, tally.Status, upstream.Most())
	if most := upstream.Most(); most > slots {
		t.Errorf("%s: %d streams at a time at the upstream, the limit is %d", path, most, slots)
	}
	if tally.Other(200, 429, 503) > 0 {
		t.Errorf("%s: first error: %v", path, tally.FirstError)
	}
	return tally.OK() >= 10 && tally.Status[429] > 0
}

// handOver frees a slot in one PoP, and takes it in the other.
func handOver(t *testing.T, s *stack.Stack, upstream *stack.InFlight) {
	t.Helper()
	for i := range 2 {
		from, to := s.PoPs[i%2].Addr, s.PoPs[(i+1)%2].Addr
		proc.Eventually(t, 5*time.Second, "the slot is free", func() bool { return statusOf(t, from, "/one") == http.StatusOK })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool, 1)
		ended <- true
		proc.Eventually(t, 5*time.Second, "the stream is at the upstream", func() bool {
			if len(ended) > 0 { // or not begun: an answer that is too late is 503
				<-ended
				go func() { _ = stream(ctx, from, "/one?for=60s"); ended <- true }()
			}
			return upstream.Now() == 1
		})
		status := 503 // while the region answers too late
		for end := time.Now().Add(time.Minute); status == 503 && time.Now().Before(end); {
			status = statusOf(t, to, "/one")
		}
		if status != 429 {
			t.Errorf("status %d beside a stream in the other PoP, want 429", status)
		}
		cancel()
		<-ended
		freed := time.Now() // about two lease intervals of 100 ms, or longer on a busy machine; a slot that leaks lapses after 60 s
		proc.Eventually(t, 5*time.Second, "the slot is to be had in the other PoP", func() bool { return statusOf(t, to, "/one") == http.StatusOK })
		t.Logf("the slot was to be had in the other PoP after %v", time.Since(freed))
	}
}
