package service_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

const (
	traceA    = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceB    = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"
	unsampled = "00-2af7651916cd43dd8448eb211c80319c-b7ad6b7169203333-00"
)

// A call is traced for the first sampled request that waits for it, and linked to the others.
// Neither keys nor what is not sampled get into a trace.
func TestTrace(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	tracer := telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithSyncer(out)))
	r := newRegion(t, func(c *service.Config) { c.Tracer = tracer })
	const json = `{"protocol":1,"holder":"YWFhYWFhYWFhYWFhYWFhYQ==","seq":"900","wants":[{"rule":"page","key":"aw==","need":"1","waiting":"1","want":"1"}]}`
	both := r.call(want("page", "secret", 1), want("all", "", 1))
	both.TraceParent = []string{traceA, unsampled, traceB}
	for name, c := range map[string]struct {
		contentType, header string
		body                []byte
		parent              string // empty: no span
		links               int
	}{
		"header and list": {"application/proto", traceA, both.Append(nil), traceA, 1},
		"JSON":            {"application/json", traceB, []byte(json), traceB, 0},
		"not sampled":     {"application/proto", unsampled, r.call(want("page", "k", 1)).Append(nil), "", 0},
		"no trace":        {"application/proto", "", r.call(want("page", "k", 1)).Append(nil), "", 0},
	} {
		out.Reset()
		if w := r.raw(c.contentType, c.body, "Traceparent", c.header); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		spans := out.GetSpans()
		if c.parent == "" {
			if len(spans) != 0 {
				t.Errorf("%s: %v", name, spans)
			}
			continue
		}
		if len(spans) != 1 || spans[0].SpanContext.TraceID().String() != c.parent[3:35] || spans[0].Parent.SpanID().String() != c.parent[36:52] || len(spans[0].Links) != c.links {
			t.Fatalf("%s: %+v", name, spans)
		}
		text := fmt.Sprint(spans[0].Attributes)
		if !strings.Contains(text, "page") || !strings.Contains(text, `"weir.wants.ok":`) || strings.Contains(text, "secret") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// BenchmarkTracing measures what a call with one want pays for tracing: "sampled" makes a span
// and leaves it to a batch that is thrown away.
func BenchmarkTracing(b *testing.B) {
	on := func(c *service.Config) {
		c.Tracer = telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithBatcher(tracetest.NewNoopExporter())))
	}
	b.Run("off", func(b *testing.B) { benchmarkHandler(b, newRegion(b), "") })
	b.Run("on/untraced", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), "") })
	b.Run("on/unsampled", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), unsampled) })
	b.Run("on/sampled", func(b *testing.B) { benchmarkHandler(b, newRegion(b, on), traceA) })
}

func benchmarkHandler(b *testing.B, r *region, traceparent string) {
	r.setRules(`rules: [{ name: per-user, key: [{ header: x-user }], limit: 1000/1m, algorithm: token_bucket }]`)
	req := r.call(wire.Want{Rule: "per-user", Want: lease.Want{Need: 1, Waiting: 1, Want: 8, Fresh: true}})
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
		key := &req.Wants[0].Key
		*key = strconv.AppendInt(append((*key)[:0], "user-"...), int64(n%10_000), 10)
		message = req.Append(message[:0])
		q.Body = io.NopCloser(bytes.NewReader(message))
		q.ContentLength = int64(len(message))
		w.Body.Reset()
		if r.handler.ServeHTTP(w, q); w.Code > 200 {
			b.Fatalf("status %d", w.Code)
		}
	}
}
