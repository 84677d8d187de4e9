package drive

import (
	"io"
	"net"
	"testing"
	"time"
)

// BenchmarkDriver measures what a request costs the driver itself, in processor time of
// its thread: that is part of what a benchmark on a small machine measures.
func BenchmarkDriver(b *testing.B) {
	for _, bench := range []struct {
		name  string
		conns int
		rate  float64
	}{{"closed", 32, 0}, {"open", 64, 20_000}} {
		b.Run(bench.name, func(b *testing.B) {
			c, err := Dial(constant(b), "/one/thing", Uniform(10_000, 1), bench.conns)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			r, err := c.Run(b.Context(), Pace{Duration: time.Hour, Requests: int64(b.N), Rate: bench.rate})
			if err != nil || r.Status[200] != int64(b.N) {
				b.Fatalf("%d of %d answered: %v", r.Status[200], b.N, err)
			}
			b.ReportMetric(float64(r.CPU.Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// constant is the address of a server that answers whatever arrives at once with the
// headers that Envoy sends.
func constant(b *testing.B) string {
	b.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	const reply = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\ndate: Mon, 02 Nov 2026 10:00:00 GMT\r\nserver: envoy\r\n\r\nok"
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for buf := make([]byte, 4096); ; {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					if _, err := io.WriteString(conn, reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}
