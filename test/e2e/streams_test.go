package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

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
