package telemetry

import (
	"context"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The parts of OpenTelemetry that other packages use.
type (
	Span        = trace.Span
	SpanContext = trace.SpanContext
)

// maxWaiting bounds the spans of other requests that a span is linked to.
const maxWaiting = 64

// Tracer makes spans of requests that others have begun to trace: it begins no trace. A nil
// Tracer makes none. It is safe for concurrent use.
type Tracer struct{ tracer trace.Tracer }

// NewTracer makes a tracer that gives its spans to a provider.
func NewTracer(p trace.TracerProvider) *Tracer {
	return &Tracer{p.Tracer("github.com/weirlimit/weir")}
}

// Serve begins the span of a call that is served, and Call that of a call that is made. The
// span is a child of the one in ctx, and linked to the others that wait for the call; see
// [Waiting]. Nothing is made, and next to nothing done, unless the span in ctx is sampled.
// The caller ends the span.
func (t *Tracer) Serve(ctx context.Context, name string) (context.Context, Span) {
	return t.start(ctx, name, trace.SpanKindServer)
}

// Call is described at [Tracer.Serve].
func (t *Tracer) Call(ctx context.Context, name string) (context.Context, Span) {
	return t.start(ctx, name, trace.SpanKindClient)
}

func (t *Tracer) start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, noop.Span{}
	}
	others, _ := ctx.Value(othersKey{}).([]SpanContext)
	links := make([]trace.Link, len(others))
	for i := range others {
		links[i].SpanContext = others[i]
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithLinks(links...))
}

// othersKey is that of the spans in a context that wait beside its own.
type othersKey struct{}

// Waiting returns the sampled spans that wait for what is done with ctx, its own first. It is
// nil, which costs no memory, if there are none.
func Waiting(ctx context.Context) []SpanContext {
	own := trace.SpanContextFromContext(ctx)
	if !own.IsSampled() {
		return nil
	}
	others, _ := ctx.Value(othersKey{}).([]SpanContext)
	return append([]SpanContext{own}, others...)
}

// WithWaiting makes the first of spans that of a context, and the others those that wait
// beside it. They must not be changed afterwards. Without spans ctx stays as it is.
func WithWaiting(ctx context.Context, spans []SpanContext) context.Context {
	if len(spans) == 0 {
		return ctx
	}
	return context.WithValue(trace.ContextWithSpanContext(ctx, spans[0]), othersKey{}, spans[1:])
}

// Join adds to spans those that are not among them, up to [maxWaiting] beside the first. It
// changes neither: it returns one of them, or a new list.
func Join(spans, more []SpanContext) []SpanContext {
	if len(spans) == 0 || len(more) == 0 {
		return append(spans[:len(spans):len(spans)], more...)
	}
	joined := slices.Clip(spans)
	for _, s := range more {
		if len(joined) <= maxWaiting && !slices.ContainsFunc(joined, s.Equal) {
			joined = append(joined, s)
		}
	}
	return joined
}

// ParseTraceParents reads the sampled contexts out of traceparent headers (W3C Trace
// Context). Those that are not sampled, or not well formed, are left out, and so is one that
// comes a second time.
func ParseTraceParents(headers ...string) (spans []SpanContext) {
	for _, h := range headers {
		const flags = 54 // the last digit of the flags; odd: sampled
		if len(h) <= flags || !strings.Contains("13579bdf", h[flags:flags+1]) {
			continue
		}
		ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": h})
		if s := trace.SpanContextFromContext(ctx); s.IsValid() && s.IsSampled() {
			spans = Join(spans, []SpanContext{s})
		}
	}
	return spans
}

// TraceParent is the traceparent header of a span.
func TraceParent(s SpanContext) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), s), carrier)
	return carrier["traceparent"]
}

// Fail notes in a span that what it is about failed.
func Fail(s Span, err error) {
	if s.IsRecording() {
		s.SetStatus(codes.Error, err.Error())
	}
}

// Degraded notes in the span of ctx that a rule was decided on without its store.
func Degraded(ctx context.Context, rule, how string) {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		s.SetAttributes(attribute.Bool("weir.degraded", true))
		s.AddEvent("degraded", trace.WithAttributes(attribute.String("weir.rule", rule), attribute.String("weir.how", how)))
	}
}
