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

// Between starts a proxy of calls to an address, HTTP/1.1 and HTTP/2 without TLS, and returns where it listens. The
// handler of the test decides what becomes of a call; pass passes it on. A proxy of bytes cannot do that: calls
// share a connection.
func Between(t proc.T, to string, handler func(pass http.Handler) http.Handler) (addr string) {
	t.Helper()
	var protocols, above http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	above.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &above}
	t.Cleanup(transport.CloseIdleConnections)
	server := httptest.NewUnstartedServer(handler(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: to}) },
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0), // tiers end
	}))
	server.Config.Protocols = &protocols
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // first: what is lost is not over soon
	return server.Listener.Addr().String()
}

// sieve passes calls on, and loses a share of them.
type sieve struct {
	addr string
	pass http.Handler

	mu     sync.Mutex
	share  float64    // of the calls, 0 to 1
	chance *rand.Rand // seeded, so that each test loses the same calls of a sequence
}

func newSieve(t proc.T, to string) *sieve {
	t.Helper()
	s := &sieve{chance: rand.New(rand.NewPCG(1, 2))}
	s.addr = Between(t, to, func(pass http.Handler) http.Handler {
		s.pass = pass
		return s
	})
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
