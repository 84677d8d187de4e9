package service_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

// BenchmarkAcquireHandler measures a call from its body to its reply, without the
// HTTP server; an iteration is a call. "rpc" is the same through connect-go.
func BenchmarkAcquireHandler(b *testing.B) {
	for _, wants := range []int{1, 10, 100} {
		for _, form := range []string{"plain", "rpc"} {
			b.Run(fmt.Sprintf("%s/wants=%d", form, wants), func(b *testing.B) { benchmarkHandler(b, newRegion(b), wants, form == "rpc", "") })
		}
	}
}

// BenchmarkTracing measures what a call with one want pays for tracing: "sampled" makes a span
// and leaves it to a batch that is thrown away.
func BenchmarkTracing(b *testing.B) {
	on := func(c *service.Config) {
		c.Tracer = telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithBatcher(tracetest.NewNoopExporter())))
	}
	b.Run("off", func(b *testing.B) { benchmarkHandler(b, newRegion(b), 1, false, "") })
	b.Run("on/untraced", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), 1, false, "") })
	b.Run("on/unsampled", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), 1, false, unsampled) })
	b.Run("on/sampled", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), 1, false, traceA) })
}

func benchmarkHandler(b *testing.B, r *region, wants int, rpc bool, traceparent string) {
	r.setRules(`rules: [{ name: per-user, key: [{ header: x-user }], limit: 1000/1m, algorithm: token_bucket }]`)
	req := r.call()
	for range wants {
		req.Wants = append(req.Wants, wire.Want{Rule: "per-user", Want: lease.Want{Need: 1, Waiting: 1, Want: 8, Fresh: true}})
	}
	w := &discard{header: http.Header{}}
	body := &reader{}
	q := httptest.NewRequest(http.MethodPost, quotapbconnect.QuotaServiceAcquireProcedure, nil)
	q.Header.Set("Content-Type", "application/proto")
	if traceparent != "" {
		q.Header.Set("Traceparent", traceparent)
	}
	if rpc {
		q.Header.Set("Content-Encoding", "identity") // the codec leaves this to connect-go
	}
	var message []byte
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		req.Seq++
		for i := range req.Wants {
			w := &req.Wants[i]
			w.Key = strconv.AppendInt(append(w.Key[:0], "user-"...), int64((n*wants+i*7)%10_000), 10)
		}
		message = req.Append(message[:0])
		body.Reset(message)
		q.Body = body
		q.ContentLength = int64(len(message))
		w.status = 0
		r.handler.ServeHTTP(w, q)
		if w.status > 200 {
			b.Fatalf("status %d", w.status)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(wants), "ns/want")
}

type reader struct{ bytes.Reader }

func (*reader) Close() error { return nil }

var _ io.ReadCloser = (*reader)(nil)

// discard is a reply that nobody reads.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
