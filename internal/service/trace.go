package service

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/telemetry"
)

// serve begins the span of a call. Its parent is that of the call's traceparent header, or of
// the first request that waits for the call; it is linked to the others that wait.
func (s *Service) serve(ctx context.Context, procedure, header string, waiting []string) (context.Context, telemetry.Span) {
	if s.config.Tracer != nil && (header != "" || len(waiting) > 0) {
		ctx = telemetry.WithWaiting(ctx, telemetry.ParseTraceParents(append([]string{header}, waiting...)...))
	}
	return s.config.Tracer.Serve(ctx, procedure[1:])
}

// maxRules bounds the rules that a span names.
const maxRules = 16

// describe puts into the span of a call which rules it is about, and what was answered. Keys
// are of clients and stay out.
func (x *exchange) describe(span telemetry.Span) {
	if !span.IsRecording() {
		return
	}
	var rules []string
	var answers [lease.Unavailable + 1]int
	for i := range x.asks {
		if rule := x.asks[i].Policy.Rule; len(rules) < maxRules && !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
		answers[min(x.grants[i].Status, lease.Unavailable)]++
	}
	span.SetAttributes(
		attribute.StringSlice("weir.rules", rules),
		attribute.Int("weir.wants", len(x.request.Wants)),
		attribute.Int("weir.wants.ok", answers[lease.OK]),
		attribute.Int("weir.wants.denied", answers[lease.Denied]),
		attribute.Int("weir.wants.unavailable", answers[lease.Unavailable]),
	)
	if x.request.Pop != "" {
		span.SetAttributes(attribute.String("weir.pop", x.request.Pop))
	}
	if x.request.Region != "" {
		span.SetAttributes(attribute.String("weir.region", x.request.Region))
	}
}
