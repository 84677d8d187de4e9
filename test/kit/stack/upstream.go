package stack

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// serve serves h on loopback for the length of the test and returns its address.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections() // streams that a test left open
		s.Close()
	})
	return s.Listener.Addr().String()
}

// InFlight counts the requests that a handler is busy with. The zero value is
// ready to use.
type InFlight struct {
	mu        sync.Mutex
	now, most int
}

// Track counts the requests that h serves.
func (f *InFlight) Track(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.add(1)
		defer f.add(-1)
		h.ServeHTTP(w, r)
	})
}

// Now is the number of requests in flight.
func (f *InFlight) Now() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Most is the largest number of requests that were ever in flight together.
func (f *InFlight) Most() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

func (f *InFlight) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now += n
	f.most = max(f.most, f.now)
}
