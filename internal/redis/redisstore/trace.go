package redisstore

import (
	"context"
	"net"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/weirlimit/weir/internal/telemetry"
)

// trace begins the span of a pipeline: a child of the span that traces its first ask, linked
// to those of the others.
func (s *sender) trace(ctx context.Context, asks []*pendingAsk) (context.Context, telemetry.Span) {
	var spans []telemetry.SpanContext
	for _, p := range asks {
		if p.call.spans != nil {
			spans = telemetry.Join(spans, p.call.spans)
		}
	}
	ctx, span := s.store.config.Tracer.Call(telemetry.WithWaiting(ctx, spans), "EVALSHA")
	if span.IsRecording() {
		host, port, _ := net.SplitHostPort(s.node.Addr)
		number, _ := strconv.Atoi(port)
		span.SetAttributes(
			attribute.String("db.system.name", "redis"),
			attribute.String("db.operation.name", "EVALSHA"),
			attribute.Int("db.operation.batch.size", len(asks)),
			attribute.String("server.address", host),
			attribute.Int("server.port", number),
		)
	}
	return ctx, span
}
