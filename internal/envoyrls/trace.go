package envoyrls

import (
	"context"
	"strings"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/attribute"

	"github.com/weirlimit/weir/internal/telemetry"
)

// serve begins the span of a request. Several traceparent headers are as good as none: it is
// not clear which is its own.
func (s *Server) serve(ctx context.Context, parents []string) (context.Context, telemetry.Span) {
	if s.cfg.Tracer != nil && len(parents) == 1 {
		ctx = telemetry.WithWaiting(ctx, telemetry.ParseTraceParents(parents...))
	}
	return s.cfg.Tracer.Serve(ctx, strings.TrimPrefix(rlspb.RateLimitService_ShouldRateLimit_FullMethodName, "/"))
}

// describe puts the outcome of a request into its span. What descriptors contain is of
// clients and stays out.
func describe(span telemetry.Span, request *rlspb.RateLimitRequest, response *rlspb.RateLimitResponse, err error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("weir.domain", request.GetDomain()),
		attribute.Int("weir.descriptors", len(request.GetDescriptors())),
	)
	if err != nil {
		telemetry.Fail(span, err)
		return
	}
	span.SetAttributes(attribute.String("weir.outcome", strings.ToLower(response.GetOverallCode().String())))
}
