package drive

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
)

const okReply = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

// serve answers every request on every connection with what answer returns for
// its number (from 1); "" closes the connection instead. It returns the address.
func serve(t *testing.T, answer func(number int64) string) string {
	t.Helper()
	var served atomic.Int64
	return serveEach(t, func(*http.Request) string { return answer(served.Add(1)) })
}

// serveEach answers every request by what it is.
func serveEach(t *testing.T, answer func(*http.Request) string) string {
	t.Helper()
	ln := fatal.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for r, err := http.ReadRequest(in); err == nil; r, err = http.ReadRequest(in) {
					reply := answer(r)
					if _, err := io.WriteString(conn, reply); reply == "" || err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// One reply is 300 ms late on the only connection. Requests due meanwhile were
// delayed too, and their times show it: with one request due every 10 ms, about 30 of them by
// 150 ms on average. A driver that timed from the sending would report one.
func TestAStallCountsAgainstEveryRequestItDelays(t *testing.T) {
	const stall = 300 * time.Millisecond
	addr := serve(t, func(number int64) string {
		if number == 10 {
			time.Sleep(stall)
		}
		return okReply
	})
	r := fatal.Get(Run(t.Context(), Load{Addrs: []string{addr}, Conns: 1, Request: Get("/"), Count: 60, PerSecond: 100}))(t)
	if got := r.Latency.Quantile(0.8); r.Due != 60 || len(r.Latency) != 60 || got < stall/3 {
		t.Errorf("of %d, %d answered, p80 is %v, though a quarter of 60 requests waited longer than %v", r.Due, len(r.Latency), got, stall/3)
	}
}

func TestBrokenConnectionsAreCountedAndReplaced(t *testing.T) {
	for name, broken := range map[string]string{
		"closed":      "",
		"not HTTP":    "SSH-2.0\r\n\r\n",
		"two replies": okReply + okReply,
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(number int64) string {
				if number == 5 {
					return broken
				}
				return okReply
			})
			r := fatal.Get(Run(t.Context(), Load{Addrs: []string{addr}, Conns: 2, Request: Get("/"), Count: 50}))(t)
			if r.Failed != 1 || r.Done != 49 || len(r.Latency) != 49 {
				t.Errorf("failed %d, done %d with %d latencies, want 1 and 49", r.Failed, r.Done, len(r.Latency))
			}
		})
	}
}
