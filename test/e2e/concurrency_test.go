package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Slots last 2 s unrenewed, so that a stream of 5 s needs renewals.
const concurrencyRules = `
rules:
  - name: streams
    match: { path: { prefix: /stream } }
    timeout: 1s
    key: []
    limit: 20
    algorithm: concurrency
    lease: { ttl: 2s }
    on_failure: { action: deny, status: 429 }
  - name: refused-beside-a-slot
    match: { path: /stream/refused }
    timeout: 1s
    key: []
    limit: 0/1d
    algorithm: fixed_window
    consistency: exact
`

// streamer plays the upstream of streams.
//
//	/stream?for=2s    answers a byte at once and ends after the time
//	/stream/silent    never answers
//	/stream/broken    closes the connection without an answer
//	anything else     answers at once
func streamer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/stream":
	case "/stream/silent":
		<-r.Context().Done()
		return
	case "/stream/broken":
		panic(http.ErrAbortHandler)
	default:
		return
	}
	d, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write([]byte("."))
	_ = http.NewResponseController(w).Flush()
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// Two PoPs share 20 slots. The upstream never has 21 requests at a time, and all
// 20 can be used again however the earlier ones ended.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	var upstream stack.InFlight
	s := stack.Start(t, stack.Config{
		Rules:     concurrencyRules,
		Upstream:  upstream.Track(http.HandlerFunc(streamer)),
		Bootstrap: func(b *envoy.Bootstrap) { b.SetRouteTimeout("8s") },
	})
	awaitRules(t, s)

	t.Run("never 21 at the upstream", func(t *testing.T) {
		const streams = 40
		tally := offer(t, drive.Load{
			Addrs: s.Addrs(),
			Conns: streams / 2,
			Request: func(buf []byte, n int64) []byte { // 0.1 to 5 s
				d := time.Duration(100+n*619%4900) * time.Millisecond
				return append(buf, "GET /stream?for="+d.String()+" HTTP/1.1\r\nhost: pop\r\n\r\n"...)
			},
			Until:     time.Now().Add(10 * time.Second),
			PerSecond: 200,
		})
		t.Logf("%v, at most %d at a time", tally.Status, upstream.Most())
		if most := upstream.Most(); most > 20 || most < 18 {
			t.Errorf("at most %d streams at a time at the upstream, want 18 to 20", most)
		}
		if tally.Status[429] == 0 {
			t.Error("nothing was refused: the load was too small")
		}
	})
	for _, end := range []struct {
		name string
		run  func(t *testing.T, s *stack.Stack)
	}{
		{"client gone", clientsLeave},
		{"upstream resets", func(t *testing.T, s *stack.Stack) { ends(t, s, "/stream/broken", 503) }},
		{"upstream times out", upstreamsTimeOut},
		{"refused by another rule", func(t *testing.T, s *stack.Stack) { ends(t, s, "/stream/refused", 429) }},
	} {
		t.Run("freed when "+end.name, func(t *testing.T) {
			end.run(t, s)
			holdSlots(t, s, &upstream, 20)
		})
	}
}

// holdSlots holds so many streams at a time, which only works with as many slots
// free, and ends them.
func holdSlots(t *testing.T, s *stack.Stack, upstream *stack.InFlight, slots int) {
	t.Helper()
	leave := fillSlots(t, s, upstream, slots)
	leave()
	proc.Eventually(t, 15*time.Second, "the upstream is idle", func() bool { return upstream.Now() == 0 })
}

// fillSlots opens streams until so many are at the upstream. Their clients leave,
// all at once, with the function that it returns.
func fillSlots(t *testing.T, s *stack.Stack, upstream *stack.InFlight, slots int) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	leave = func() {
		cancel()
		streams.Wait()
	}
	t.Cleanup(leave)
	proc.Eventually(t, 15*time.Second, fmt.Sprintf("%d streams at a time", slots), func() bool {
		if n := upstream.Now(); n < slots {
			streams.Go(func() { _ = stream(ctx, s.PoPs[n%len(s.PoPs)].Addr, "/stream?for=20s") })
		}
		return upstream.Now() == slots
	})
	return leave
}

// clientsLeave opens 30 streams and closes their connections while they run.
func clientsLeave(t *testing.T, s *stack.Stack) {
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 30 {
		clients.Go(func() { _ = stream(ctx, s.PoPs[i%len(s.PoPs)].Addr, "/stream?for=20s") })
	}
	time.Sleep(500 * time.Millisecond)
	cancel()
	clients.Wait()
}

// upstreamsTimeOut waits until Envoy gives up on 20 requests.
func upstreamsTimeOut(t *testing.T, s *stack.Stack) {
	tally := try(t, drive.Load{Addrs: s.Addrs(), Conns: 10, Request: drive.Get("/stream/silent"), Count: 20})
	if tally.Status[504] == 0 || tally.Other(504, 429) > 0 {
		t.Errorf("%v, want 504, and 429 at most for some", tally.Status)
	}
}

// ends makes many requests that all end with one status.
func ends(t *testing.T, s *stack.Stack, path string, status int) {
	tally := try(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get(path), Count: 200})
	if tally.Status[status] == 0 || tally.Other(status, 429) > 0 {
		t.Errorf("%v, want "+strconv.Itoa(status)+", and 429 at most for some", tally.Status)
	}
}

// stream reads one response to its end, or to that of ctx.
func stream(ctx context.Context, addr, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
