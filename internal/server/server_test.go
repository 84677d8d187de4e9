package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// An answer that its client does not read ends, and so does what it takes.
func TestUnreadAnswer(t *testing.T) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
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
			port, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := New(port, nil, large, Limits{MaxStreams: 1, HeaderTimeout: time.Minute, WriteTimeout: 100 * time.Millisecond, IdleTimeout: time.Minute}, slog.New(slog.DiscardHandler))
			go func() { _ = s.Serve() }()
			t.Cleanup(func() { _ = s.Shut(time.Minute) })
			client := &http.Transport{Protocols: new(http.Protocols)}
			client.Protocols.SetHTTP1(version == 1)
			client.Protocols.SetUnencryptedHTTP2(version == 2)
			t.Cleanup(client.CloseIdleConnections)
			answer, err := (&http.Client{Transport: client}).Get("http://" + s.Address())
			if err != nil {
				t.Fatal(err)
			}
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
