package drive

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
)

func TestRequestIsWhatItSays(t *testing.T) {
	r := newRequest("/v1/things")
	got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.with(1234))))
	if err != nil {
		t.Fatal(err)
	}
	if got.URL.Path != "/v1/things" || got.Header.Get("x-user-id") != "user-00001234" {
		t.Errorf("path %q, x-user-id %q", got.URL.Path, got.Header.Get("x-user-id"))
	}
}

func TestClonesHaveTheirOwnKey(t *testing.T) {
	a := newRequest("/")
	b := a.clone()
	a.with(MaxKeys - 1)
	b.with(7)
	if !bytes.Contains(a.bytes, []byte("user-99999999\r")) || !bytes.Contains(b.bytes, []byte("user-00000007\r")) {
		t.Errorf("keys of two clones: %q and %q", a.bytes, b.bytes)
	}
}

func TestParseReply(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nserver: envoy\r\n\r\nok\n"
	for _, tc := range []struct {
		name           string
		in             string
		status, length int
		fails          bool
	}{
		{"whole", ok, 200, len(ok), false},
		{"two in one read", ok + ok, 200, len(ok), false},
		{"no body", "HTTP/1.1 429 Too Many Requests\r\ncontent-length:0\r\n\r\n", 429, 52, false},
		{"nothing yet", "", 0, 0, false},
		{"half a head", ok[:20], 0, 0, false},
		{"half a body", ok[:len(ok)-1], 0, 0, false},
		{"length in another header's name", "HTTP/1.1 200 OK\r\nx-content-length: 3\r\n\r\n", 0, 0, true},
		{"no body by its status", "HTTP/1.1 204 No Content\r\nserver: envoy\r\n\r\n", 204, 42, false},
		{"chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nok\n\r\n0\r\n\r\n", 200, 60, false},
		{"chunks that do not end", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nok\n\r\n", 0, 0, false},
		{"no chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nok\n\r\n", 0, 0, true},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", 0, 0, true},
		{"length is no number", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", 0, 0, true},
		{"length out of range", "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n", 0, 0, true},
		{"not final", "HTTP/1.1 100 Continue\r\ncontent-length: 0\r\n\r\n", 0, 0, true},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2p1 Debian\r\n\r\n", 0, 0, true},
		{"short", "HTTP\r\n\r\n", 0, 0, true},
	} {
		p, err := parseReply([]byte(tc.in))
		status, length := p.status, p.n
		if status != tc.status || length != tc.length || (err != nil) != tc.fails {
			t.Errorf("%s: parseReply = %d, %d, %v; want %d, %d, error %v",
				tc.name, status, length, err, tc.status, tc.length, tc.fails)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nok\n\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := parseReply(in)
		status, length := p.status, p.n
		if err != nil && length != 0 {
			t.Errorf("length %d with an error", length)
		}
		if length < 0 || length > len(in) {
			t.Errorf("length %d of %d bytes", length, len(in))
		}
		if length > 0 && (status < 200 || status > 599) {
			t.Errorf("status %d", status)
		}
	})
}
