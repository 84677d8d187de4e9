package redisstore

import (
	"context"
	"fmt"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A pipeline is a child of the span of its first traced ask, and linked to those of the
// others. Asks that nobody traces make no span.
func TestTrace(t *testing.T) {
	t.Parallel()
	out := tracetest.NewInMemoryExporter()
	tracer := telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithSyncer(out)))
	s := start(t, Config{Redis: topology.Config{Addrs: []string{redistest.Start(t).Addr}}, Tracer: tracer, Lanes: 1})
	p := fixedPolicy(t, "r", 100)
	acquire(t, s, plenty, one(p, "k"))
	if spans := out.GetSpans(); len(spans) != 0 {
		t.Fatalf("nobody traced: %+v", spans)
	}
	parents := telemetry.ParseTraceParents(
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01")
	ctx, cancel := context.WithTimeout(telemetry.WithWaiting(t.Context(), parents), plenty)
	defer cancel()
	asks := []engine.Ask{one(p, "k"), one(p, "l")}
	s.Acquire(ctx, asks, make([]lease.Grant, 2))
	eventually(t, func() (bool, any) {
		spans := out.GetSpans()
		return len(spans) == 1, fmt.Sprintf("%d spans", len(spans))
	})
	span := out.GetSpans()[0]
	if span.Parent.SpanID() != parents[0].SpanID() || len(span.Links) != 1 || span.Links[0].SpanContext.SpanID() != parents[1].SpanID() {
		t.Errorf("%+v", span)
	}
	for _, a := range span.Attributes {
		if a.Key == "db.operation.batch.size" && a.Value.AsInt64() != 2 {
			t.Errorf("%v asks", a.Value.AsInt64())
		}
	}
}
