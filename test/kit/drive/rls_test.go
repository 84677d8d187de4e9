package drive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serveRLS answers every call with what answer returns for its number (from 1):
// an overall_code, or -1 for an answer without a message. Go's own HTTP/2 reads
// what the driver sends.
func serveRLS(t *testing.T, answer func(number int64, message []byte) int) string {
	t.Helper()
	var served atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := served.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) < 5 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
			t.Errorf("call %d: body %q: %v", number, body, err)
			return
		}
		got := fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("content-type"), " ", r.Header.Get("te"), " ",
			r.Header.Get("grpc-timeout"), " ", r.Header.Get("user-agent"))
		want := "POST /envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit application/grpc trailers 1S weir-load/1"
		if got != want || r.Host != r.Context().Value(http.LocalAddrContextKey).(fmt.Stringer).String() {
			t.Errorf("call %d is %s to %s, want %s", number, got, r.Host, want)
		}
		w.Header().Set("content-type", "application/grpc")
		w.Header().Set("trailer", "grpc-status")
		if code := answer(number, body[5:]); code >= 0 {
			message := []byte{1 << 3, byte(code), 2<<3 | 2, 2, 1 << 3, byte(code)}
			_, _ = w.Write(append([]byte{0, 0, 0, 0, byte(len(message))}, message...))
		}
		w.Header().Set("grpc-status", "0")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func dialRLS(t *testing.T, addr string, ask Ask, keys Keys, n int) *Client {
	t.Helper()
	c, err := DialRLS(addr, ask, keys, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestCallsOfTheRateLimitService(t *testing.T) {
	codes := []int{1, 1, 2, 0, 3, -1} // OK twice, OVER_LIMIT, UNKNOWN, a code from the future, no message
	addr := serveRLS(t, func(number int64, _ []byte) int { return codes[number%6] })
	r := generate(t, dialRLS(t, addr, Ask{Domain: "d", Entry: "e"}, Uniform(10, 1), 3), Pace{Duration: time.Minute, Requests: 600})
	if r.Done != 600 || r.Status[200] != 200 || r.Status[429] != 100 || r.Status[500] != 300 {
		t.Errorf("done %d, 200: %d, 429: %d, 500: %d; want 600, 200, 100, 300", r.Done, r.Status[200], r.Status[429], r.Status[500])
	}
}

func TestACallIsWhatItSays(t *testing.T) {
	for _, tc := range []struct {
		ask  Ask
		want string
	}{
		{Ask{Domain: "bench", Entry: "tight"},
			"\x0a\x05bench\x12\x18\x0a\x16\x0a\x05tight\x12\x0duser-00000042"},
		{Ask{Domain: "bench", Entry: "hot", Hits: 300},
			"\x0a\x05bench\x12\x16\x0a\x14\x0a\x03hot\x12\x0duser-00000042\x18\xac\x02"},
	} {
		var got atomic.Value
		addr := serveRLS(t, func(_ int64, message []byte) int { got.Store(bytes.Clone(message)); return 1 })
		generate(t, dialRLS(t, addr, tc.ask, func() uint32 { return 42 }, 1), Pace{Duration: time.Minute, Requests: 2})
		if message, _ := got.Load().([]byte); string(message) != tc.want {
			t.Errorf("%+v: message %q, want %q", tc.ask, message, tc.want)
		}
	}
}

// More calls than the server's first window takes in bytes, over several runs.
func TestAConnectionLastsForManyCalls(t *testing.T) {
	addr := serveRLS(t, func(int64, []byte) int { return 1 })
	c := dialRLS(t, addr, Ask{Domain: strings.Repeat("d", 100), Entry: "e"}, Hot(), 1)
	for range 2 {
		if r := generate(t, c, Pace{Duration: time.Minute, Requests: 1000}); r.Status[200] != 1000 {
			t.Fatalf("200: %d of 1000", r.Status[200])
		}
	}
}

func TestFramesThatAreNoReply(t *testing.T) {
	frame := func(kind, flags byte, stream uint32, payload string) []byte {
		return appendFrame(nil, kind, flags, stream, []byte(payload))
	}
	for _, tc := range []struct {
		name   string
		in     []byte
		status int
		answer string
		fails  bool
	}{
		{"settings", frame(frameSettings, 0, 0, "\x00\x03\x00\x00\x00\x64"), 0, "\x00\x00\x00\x04\x01\x00\x00\x00\x00", false},
		{"settings seen", frame(frameSettings, flagAck, 0, ""), 0, "", false},
		{"ping", frame(framePing, 0, 0, "12345678"), 0, "\x00\x00\x08\x06\x01\x00\x00\x00\x0012345678", false},
		{"ping seen", frame(framePing, flagAck, 0, "12345678"), 0, "", false},
		{"more window", frame(frameWindow, 0, 0, "\x00\x00\x00\x01"), 0, "", false},
		{"reset", frame(frameReset, 0, 1, "\x00\x00\x00\x07"), 500, "", false},
		{"reset of an old call", frame(frameReset, 0, 99, "\x00\x00\x00\x07"), 0, "", false},
		{"end of the connection", frame(frameGoAway, 0, 0, "\x00\x00\x00\x01\x00\x00\x00\x00"), 0, "", true},
		{"another call's reply", frame(frameData, flagEndStream, 3, ""), 0, "", true},
		{"padding", frame(frameData, flagPadded, 1, "\x00"), 0, "", true},
		{"too large", frame(frameData, 0, 1, strings.Repeat("x", maxReply)), 0, "", true},
		{"HTTP/1.1", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), 0, "", true},
		{"half a head", []byte("\x00\x00"), 0, "", false},
		{"half a frame", frame(framePing, 0, 0, "12345678")[:12], 0, "", false},
	} {
		r := newRLS("127.0.0.1:1", Ask{Domain: "d", Entry: "e"})
		r.request(0)
		p, err := r.take(tc.in)
		if p.status != tc.status || string(p.answer) != tc.answer || (err != nil) != tc.fails {
			t.Errorf("%s: take = %d, %d, %q, %v; want %d, %q, error %v", tc.name, p.status, p.n, p.answer, err, tc.status, tc.answer, tc.fails)
		}
		if whole := !strings.HasPrefix(tc.name, "half"); !tc.fails && (p.n == len(tc.in)) != whole {
			t.Errorf("%s: took %d of %d bytes", tc.name, p.n, len(tc.in))
		}
	}
}

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
