package client_test

import (
	"context"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream/client"
)

// A call for several callers is a child of the first that is traced and has links to the
// others, here and at the aggregator. A heartbeat is not traced.
func TestTrace(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		out := tracetest.NewInMemoryExporter()
		tracer := telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithSyncer(out)))
		a.serve(tracer)
		s := a.replica("eu", func(c *client.Config) { c.Tracer = tracer })
		time.Sleep(3 * time.Second) // heartbeats
		const first, second = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"
		var all sync.WaitGroup
		for _, parents := range [][]string{nil, {first}, {second}} {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(telemetry.WithWaiting(t.Context(), telemetry.ParseTraceParents(parents...)), time.Second)
				defer cancel()
				s.Acquire(ctx, []engine.Ask{a.ask("ten", "k", 1)}, make([]lease.Grant, 1))
			})
		}
		all.Wait()
		spans := out.GetSpans()
		if len(spans) != 2 {
			t.Fatalf("%d spans: %v", len(spans), spans)
		}
		served, called := spans[0], spans[1] // in the order in which they end
		if called.SpanKind != trace.SpanKindClient || len(called.Links) != 1 || called.Parent.TraceID() == called.Links[0].SpanContext.TraceID() {
			t.Errorf("the call: %+v", called)
		}
		if served.SpanKind != trace.SpanKindServer || served.Parent.SpanID() != called.SpanContext.SpanID() ||
			len(served.Links) != 1 || served.Links[0].SpanContext.TraceID() != called.Links[0].SpanContext.TraceID() {
			t.Errorf("the aggregator: %+v", served)
		}
	})
}
