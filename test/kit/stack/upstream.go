package stack

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// serve serves h on loopback for the length of the test and returns its address.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections() // streams that a test left open
		s.Close()
	})
	return s.Listener.Addr().String()
}

// InFlight counts the requests that a handler is busy with. The zero value is
// ready to use.
type InFlight struct{ now, most atomic.Int64 }

// Track counts the requests that h serves.
func (f *InFlight) Track(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := f.now.Add(1)
		defer f.now.Add(-1)
		for most := f.most.Load(); now > most && !f.most.CompareAndSwap(most, now); most = f.most.Load() {
		}
		h.ServeHTTP(w, r)
	})
}

// Now is the number of requests in flight.
func (f *InFlight) Now() int { return int(f.now.Load()) }

// Most is the largest number of requests that were ever in flight together.
func (f *InFlight) Most() int { return int(f.most.Load()) }
