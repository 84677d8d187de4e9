package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/upstream/client"
	"github.com/weirlimit/weir/internal/wire"
)

// A connection breaks when a call has arrived and before its answer: the call may have been
// applied, so nothing sends it again.
func TestNoCallIsSentTwice(t *testing.T) {
	var mu sync.Mutex
	came, enough := map[uint64]int{}, make(chan struct{})
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // /healthz
			return
		}
		var m wire.Request
		body, err := io.ReadAll(r.Body)
		if err != nil || m.Decode(body) != nil {
			t.Errorf("a call that is not whole: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if came[m.Seq]++; len(came) == 10 && came[m.Seq] == 1 {
			close(enough)
		}
		if len(came)%2 == 0 { // the connection breaks, else the stream
			go server.CloseClientConnections()
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	})
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	a := newAggregator(t)
	s := a.replica("eu", func(c *client.Config) {
		c.Addresses, c.Transport = []string{server.Listener.Addr().String()}, nil
	})
	for over := time.After(time.Minute); ; {
		acquire(s, a.ask("ten", "k", 1)) // while the tier is silent heartbeats are calls, too
		select {
		case <-enough:
			mu.Lock()
			defer mu.Unlock()
			for seq, n := range came {
				if n > 1 {
					t.Errorf("call %d came %d times", seq, n)
				}
			}
			return
		case <-over:
			t.Fatal("fewer than ten calls within a minute")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
