package drive

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Every request arrives once, and every answer is counted under its status,
// whatever the framing of its body.
func TestALoadIsCountedExactly(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	server := serveEach(t, func(r *http.Request) string {
		user := r.Header.Get("x-user")
		mu.Lock()
		seen[user]++
		mu.Unlock()
		switch user[len(user)-1] {
		case '0', '1':
			return "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"
		case '2':
			return "HTTP/1.1 204 No Content\r\n\r\n"
		case '3':
			return "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1f40\r\n" + strings.Repeat("c", 8000) + "\r\n1\r\nc\r\n0\r\n\r\n"
		case '4':
			return "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
		}
		return okReply
	})
	tally := fatal.Get(Run(t.Context(), Load{
		Addrs:   []string{server},
		Request: GetEach("/a?b=c", "x-user", "u"),
		Count:   1000,
	}))(t)
	if tally.OK() != 700 || tally.Status[429] != 200 || tally.Status[204] != 100 || tally.Sent() != 1000 || tally.FirstError != nil {
		t.Errorf("tally %+v", tally)
	}
	var seconds Second
	for _, s := range tally.Seconds {
		seconds.Sent += s.Sent
		seconds.OK += s.OK
	}
	if seconds.Sent != 1000 || seconds.OK != 700 {
		t.Errorf("by second: %+v", tally.Seconds)
	}
	if n := tally.Other(200, 204); n != 200 {
		t.Errorf("Other = %d", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 1000 {
		t.Errorf("%d different requests arrived, want 1000", len(seen))
	}
}

func TestFailuresAreCounted(t *testing.T) {
	tally, err := Run(t.Context(), Load{Addrs: []string{proc.FreeAddr(t)}, Conns: 1, Request: Get("/"), Count: 5})
	if err != nil || tally.Failed != 5 || !errors.Is(tally.FirstError, unix.ECONNREFUSED) {
		t.Errorf("connections rejected: %+v, %v", tally, err)
	}
}

// What took long is counted, by the second of its answer, too, and when the last request was sent that was not answered with 200 is noted.
func TestSlowAndRejected(t *testing.T) {
	const slow = 1100 * time.Millisecond // its answer comes in another second
	times := make(chan time.Time, 2)
	server := serve(t, func(number int64) string {
		switch number {
		case 1:
			time.Sleep(slow)
			times <- time.Now()
		case 2:
			times <- time.Now()
			return "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"
		}
		return okReply
	})
	tally := fatal.Get(Run(t.Context(), Load{Addrs: []string{server}, Conns: 1, Request: Get("/"), Count: 5}))(t)
	if l := tally.Latency; l.Above(0) != 5 || l.Above(slow) < 1 || l.Above(time.Hour) != 0 {
		t.Errorf("answers took %v µs", l)
	}
	late := int64(0)
	for _, s := range tally.Seconds {
		for _, answers := range s.Later {
			late += answers
		}
	}
	if late < 1 {
		t.Errorf("no answer came in a later second: %+v", tally.Seconds)
	}
	if before, after := <-times, <-times; tally.Rejected.Before(before) || tally.Rejected.After(after) {
		t.Errorf("rejected at %v, want between %v and %v", tally.Rejected, before, after)
	}
}
