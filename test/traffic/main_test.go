package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each stream comes from its own addresses, what was answered is printed, and the traffic ends.
func TestRun(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	pop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		addr, _, _ := strings.Cut(r.RemoteAddr, ":")
		seen[addr+" "+r.Header.Get("x-user-id")] = true
		if r.URL.Path == "/v1/orders" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer pop.Close()
	var out strings.Builder
	if err := run(t.Context(), pop.Listener.Addr().String(), 1, 3*time.Second, &out); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, from := range []string{"127.0.0.7 ", "127.0.0.8 ", "127.0.0.21 ben", "127.0.0.22 ann"} {
		if !seen[from] {
			t.Errorf("nothing came from %s: %v", from, seen)
		}
	}
	for _, want := range []string{"crawler           ", " 0 rejected, 0 failed", "The traffic has ended"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, &out)
		}
	}
	if err := run(t.Context(), "192.0.2.1:10000", 1, time.Second, &out); err == nil {
		t.Error("it sends to another machine")
	}
}
