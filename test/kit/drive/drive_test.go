package drive

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every request arrives once, and every answer is counted under its status,
// whatever the framing of its body.
func TestTallyIsExact(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.Header.Get("x-user")
		mu.Lock()
		seen[user]++
		mu.Unlock()
		switch user[len(user)-1] {
		case '0', '1':
			w.WriteHeader(http.StatusTooManyRequests)
		case '2':
			w.WriteHeader(http.StatusNoContent)
		case '3': // more than net/http frames by length
			_, _ = w.Write([]byte(strings.Repeat("chunked", 10_000)))
		case '4':
			w.Header().Set("Connection", "close")
		}
	}))
	defer server.Close()

	tally, err := Run(t.Context(), Load{
		Addrs:   []string{server.Listener.Addr().String()},
		Request: GetEach("/a?b=c", "x-user", "u"),
		Count:   1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	if tally.OK() != 700 || tally.Status[429] != 200 || tally.Status[204] != 100 || tally.Sent() != 1000 || tally.FirstError != nil {
		t.Errorf("tally %+v", tally)
	}
	var seconds Second
	for _, s := range tally.Seconds {
		seconds.Sent += s.Sent
		seconds.OK += s.OK
	}
	if seconds != (Second{Sent: 1000, OK: 700}) {
		t.Errorf("by second: %+v", tally.Seconds)
	}
	if n := tally.Other(200, 204); n != 200 {
		t.Errorf("Other = %d", n)
	}
	if len(seen) != 1000 {
		t.Errorf("%d different requests arrived, want 1000", len(seen))
	}
}

func TestLoadEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	load := Load{Addrs: []string{server.Listener.Addr().String()}, Request: Get("/", "a", "b")}

	if _, err := Run(t.Context(), load); err == nil {
		t.Error("a load without an end was accepted")
	}
	load.Until = time.Now().Add(300 * time.Millisecond)
	load.PerSecond = 100
	tally, err := Run(t.Context(), load)
	// Request n is due after n/100 s: at most 30 fit into 300 ms. That some are
	// sent at all is the lower bound; how many depends on the machine.
	if err != nil || tally.Sent() > 30 || tally.Sent() == 0 {
		t.Errorf("%d requests in 300 ms at 100 per second, %v", tally.Sent(), err)
	}
}

func TestFailuresAreCounted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	load := Load{Addrs: []string{l.Addr().String()}, Conns: 1, Request: Get("/"), Count: 5}
	if tally, err := Run(t.Context(), load); err != nil || tally.Failed != 5 || tally.FirstError == nil {
		t.Errorf("connections closed: %+v, %v", tally, err)
	}
	l.Close()
	tally, err := Run(t.Context(), load)
	if op := (*net.OpError)(nil); err != nil || tally.Failed != 5 || !errors.As(tally.FirstError, &op) {
		t.Errorf("connections refused: %+v, %v", tally, err)
	}
}
