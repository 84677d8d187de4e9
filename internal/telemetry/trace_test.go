package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	another   = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"
	unsampled = "00-2af7651916cd43dd8448eb211c80319c-b7ad6b7169203333-00"
)

func TestParseTraceParents(t *testing.T) {
	got := ParseTraceParents("", sampled, unsampled, sampled, "nonsense", strings.Repeat("x", 70), strings.Replace(sampled, "0af7", "0AF7", 1), another)
	if len(got) != 2 || TraceParent(got[0]) != sampled || got[1].TraceID().String() != another[3:35] {
		t.Errorf("%v", got)
	}
	if got := ParseTraceParents("", unsampled); got != nil {
		t.Errorf("unsampled: %v", got)
	}
	var many []string
	for i := range 2 * maxWaiting {
		many = append(many, fmt.Sprintf("00-%032x-%016x-01", i+1, i+1))
	}
	if got := len(ParseTraceParents(many...)); got != maxWaiting+1 {
		t.Errorf("%d spans are kept, want %d", got, maxWaiting+1)
	}
}

func TestJoin(t *testing.T) {
	a, b := ParseTraceParents(sampled), ParseTraceParents(another)
	both := Join(a, b)
	if len(both) != 2 || len(Join(both, a)) != 2 || len(Join(nil, b)) != 1 || len(Join(a, nil)) != 1 || Join(nil, nil) != nil {
		t.Errorf("%v", both)
	}
	shared := make([]SpanContext, 1, 8)
	one, two := Join(shared, a), Join(shared, b)
	if one[1].Equal(two[1]) {
		t.Error("two lists share memory")
	}
}

// A span is a child of the first that waits, is linked to the others, and is made only if that one is sampled.
func TestSpans(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	tracer := NewTracer(sdk.NewTracerProvider(sdk.WithSyncer(out)))
	for _, none := range []context.Context{
		t.Context(),
		trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})),
	} {
		ctx, span := tracer.Serve(none, "nobody asked for it")
		Fail(span, errors.New("lost"))
		span.End()
		if ctx != none || Waiting(ctx) != nil || len(out.GetSpans()) != 0 {
			t.Errorf("a span without a sampled parent: %v", out.GetSpans())
		}
	}
	waiting := ParseTraceParents(sampled, another)
	ctx, span := tracer.Serve(WithWaiting(t.Context(), waiting), "served")
	if w := Waiting(ctx); len(w) != 2 || !w[0].Equal(span.SpanContext()) || !w[1].Equal(waiting[1]) {
		t.Errorf("what is called for it has %v", w)
	}
	_, call := tracer.Call(ctx, "called")
	Fail(call, errors.New("broken"))
	call.End()
	Degraded(ctx, "login", "allow")
	span.End()
	spans := out.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	called, served := spans[0], spans[1]
	if served.Parent.SpanID() != waiting[0].SpanID() || len(served.Links) != 1 || served.Links[0].SpanContext.TraceID() != waiting[1].TraceID() ||
		served.SpanKind != trace.SpanKindServer || len(served.Events) != 1 {
		t.Errorf("%+v", served)
	}
	if called.Parent.SpanID() != served.SpanContext.SpanID() || called.SpanKind != trace.SpanKindClient || called.Status.Code != codes.Error {
		t.Errorf("%+v", called)
	}
	var off *Tracer
	if ctx, _ := off.Call(ctx, "nowhere"); len(Waiting(ctx)) != 2 || len(out.GetSpans()) != 2 {
		t.Error("without a tracer there is a span")
	}
}
