package service_test

import (
	"net/http"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
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
		var text strings.Builder
		for _, a := range spans[0].Attributes {
			text.WriteString(string(a.Key) + "=" + a.Value.String() + " ")
		}
		if !strings.Contains(text.String(), "page") || !strings.Contains(text.String(), "weir.wants.ok=") || strings.Contains(text.String(), "secret") {
			t.Errorf("%s: %s", name, text.String())
		}
	}
}
