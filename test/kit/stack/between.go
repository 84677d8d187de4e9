package stack

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

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
