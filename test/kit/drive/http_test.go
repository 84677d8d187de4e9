package drive

import (
	"testing"
)

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
