package drive

import (
	"testing"
)

func FuzzTake(f *testing.F) {
	f.Add(appendFrame(nil, framePing, 0, 0, []byte("12345678")))
	f.Add(appendFrame(nil, frameData, flagEndStream, 1, []byte("\x00\x00\x00\x00\x02\x08\x01")))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newRLS("127.0.0.1:1", Ask{Domain: "d", Entry: "e"})
		r.request(0)
		for len(in) > 0 {
			p, err := r.take(in)
			status, n := p.status, p.n
			if n < 0 || n > len(in) || status != 0 && (status < 200 || status > 599) {
				t.Fatalf("take = %d, %d, %v of %d bytes", status, n, err, len(in))
			}
			if n == 0 || err != nil {
				return
			}
			in = in[n:]
		}
	})
}
