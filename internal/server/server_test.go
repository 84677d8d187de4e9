package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// An answer that its client does not read ends, and so does what it takes.
func TestUnreadAnswer(t *testing.T) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			large := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				var err error
				for range 1000 {
					if _, err = w.Write(make([]byte, 1<<20)); err != nil {
						break
					}
				}
				ended <- err
			})
			port := fatal.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			s := New(nil, large, Limits{MaxStreams: 1, HeaderTimeout: time.Minute, WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute}, slog.New(slog.DiscardHandler))
			go func() { _ = s.Serve(port) }()
			t.Cleanup(func() { _ = s.Shut(time.Minute) })
			client := &http.Transport{Protocols: new(http.Protocols)}
			client.Protocols.SetHTTP1(version == 1)
			client.Protocols.SetUnencryptedHTTP2(version == 2)
			t.Cleanup(client.CloseIdleConnections)
			answer := fatal.Get((&http.Client{Transport: client}).Get("http://" + port.Addr().String()))(t)
			defer answer.Body.Close()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("it was written whole")
				}
			case <-time.After(time.Minute):
				t.Error("it is still being written")
			}
		})
	}
}

// dialer dials from another address of this machine.
func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
}

// A client with more connections than a port has keeps no other client from it, and no connection of others is cut.
func TestFloodOfConnections(t *testing.T) {
	began, hold := make(chan struct{}), make(chan struct{})
	port := fatal.Get(Listen(t.Context(), "127.0.0.1:0", "listen", 8))(t)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			close(began)
			<-hold
		}
	})
	s := New(nil, h, Limits{MaxStreams: 1, HeaderTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute}, slog.New(slog.DiscardHandler))
	go func() { _ = s.Serve(port) }()
	t.Cleanup(func() { _ = s.Shut(time.Minute) })
	get := func(from, path string) error {
		client := &http.Transport{DialContext: dialer(from).DialContext, DisableKeepAlives: true}
		answer, err := (&http.Client{Transport: client, Timeout: 10 * time.Second}).Get("http://" + port.Addr().String() + path)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	held := make(chan error, 1)
	go func() { held <- get("127.0.0.3", "/hold") }()
	<-began
	for range 40 {
		conn := fatal.Get(dialer("127.0.0.2").Dial("tcp", port.Addr().String()))(t)
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") // else it is cut soon; it may be cut already
	}
	if err := get("127.0.0.1", "/"); err != nil {
		t.Error(err)
	}
	close(hold)
	if err := <-held; err != nil {
		t.Errorf("the call that was there first: %v", err)
	}
}
