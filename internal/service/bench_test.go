package service_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

// BenchmarkTracing measures what a call with one want pays for tracing: "sampled" makes a span
// and leaves it to a batch that is thrown away.
func BenchmarkTracing(b *testing.B) {
	on := func(c *service.Config) {
		c.Tracer = telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithBatcher(tracetest.NewNoopExporter())))
	}
	b.Run("off", func(b *testing.B) { benchmarkHandler(b, newRegion(b), 1, "") })
	b.Run("on/untraced", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), 1, "") })
	b.Run("on/unsampled", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), 1, unsampled) })
	b.Run("on/sampled", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), 1, traceA) })
}

func benchmarkHandler(b *testing.B, r *region, wants int, traceparent string) {
	r.setRules(`rules: [{ name: per-user, key: [{ header: x-user }], limit: 1000/1m, algorithm: token_bucket }]`)
	req := r.call()
	for range wants {
		req.Wants = append(req.Wants, wire.Want{Rule: "per-user", Want: lease.Want{Need: 1, Waiting: 1, Want: 8, Fresh: true}})
	}
	w := httptest.NewRecorder()
	q := httptest.NewRequest(http.MethodPost, quotav1connect.QuotaServiceAcquireProcedure, nil)
	q.Header.Set("Content-Type", "application/proto")
	if traceparent != "" {
		q.Header.Set("Traceparent", traceparent)
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
		q.Body = io.NopCloser(bytes.NewReader(message))
		q.ContentLength = int64(len(message))
		w.Body.Reset()
		if r.handler.ServeHTTP(w, q); w.Code > 200 {
			b.Fatalf("status %d", w.Code)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(wants), "ns/want")
}
