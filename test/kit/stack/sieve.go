package stack

import (
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	"github.com/weirlimit/weir/test/kit/proc"
)

// sieve passes calls on, HTTP/1.1 and HTTP/2 without TLS, and loses a share of them. A proxy of bytes
// cannot: calls share a connection.
type sieve struct {
	addr string
	pass http.Handler

	mu     sync.Mutex
	share  float64    // of the calls, 0 to 1
	chance *rand.Rand // seeded, so that each test loses the same calls of a sequence
}

func newSieve(t proc.T, to string) *sieve {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	var above http.Protocols
	above.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &above}
	t.Cleanup(transport.CloseIdleConnections)
	s := &sieve{chance: rand.New(rand.NewPCG(1, 2))}
	s.pass = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: to}) },
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0), // tiers end
	}
	server := httptest.NewUnstartedServer(s)
	server.Config.Protocols = &protocols
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // first: what is lost is not over soon
	s.addr = server.Listener.Addr().String()
	return s
}

func (s *sieve) setShare(share float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share = share
}

// ServeHTTP lets a call that is lost wait until its caller gives up.
func (s *sieve) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	drawn, share := s.chance.Float64(), s.share
	s.mu.Unlock()
	switch {
	case drawn >= share:
		s.pass.ServeHTTP(w, r)
		return
	case drawn >= share/2:
		s.pass.ServeHTTP(httptest.NewRecorder(), r)
	}
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}
