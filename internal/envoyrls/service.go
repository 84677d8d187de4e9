package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/envoyrls/rules"
	"github.com/weirlimit/weir/internal/telemetry"
)

// errUnconfigured is the answer before the first configuration.
var errUnconfigured = status.Error(codes.Unavailable, "no rate limit configuration has been loaded yet")

// ShouldRateLimit decides on a request. The error is that the request is wrong, or that there is no
// configuration yet, or that the request met a mistake in this server.
func (s *Server) ShouldRateLimit(ctx context.Context, request *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	var parents []string
	if s.cfg.Tracer != nil {
		parents = metadata.ValueFromIncomingContext(ctx, "traceparent")
	}
	return s.shouldRateLimit(ctx, parents, request)
}

// shouldRateLimit decides on a request with the traceparent headers that it came with.
func (s *Server) shouldRateLimit(ctx context.Context, parents []string, request *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	begin := time.Now()
	ctx, span := s.serve(ctx, parents)
	response, err := s.answer(ctx, begin, request)
	describe(span, request, response, err)
	span.End()
	code := strings.ToLower(response.GetOverallCode().String())
	switch {
	case errors.Is(err, errUnconfigured):
		code = "unconfigured"
	case errors.Is(err, errPanicked):
		code = "internal"
	case err != nil:
		code = "invalid"
	}
	s.metrics.Requests.WithLabelValues(code).Inc()
	s.metrics.Answered(time.Since(begin).Seconds(), code == "invalid")
	return response, err
}

func (s *Server) answer(ctx context.Context, begin time.Time, request *rlspb.RateLimitRequest) (response *rlspb.RateLimitResponse, err error) {
	defer s.recoverPanic("ShouldRateLimit", &err)
	in := s.rules.Load()
	if in == s.none {
		return nil, errUnconfigured
	}
	if err := check(request); err != nil {
		return nil, err
	}
	q := queries.Get().(*query)
	q.request = request
	response, err = s.decide(ctx, begin, q, in)
	q.release() // not after a panic: others may still use its memory
	return response, err
}

func (s *Server) decide(ctx context.Context, begin time.Time, q *query, in *rules.Set) (*rlspb.RateLimitResponse, error) {
	if err := s.match(q, in); err != nil {
		return nil, err
	}
	rejected := s.decider.Decide(ctx, s.deadline(ctx, begin), &q.Request)
	response := s.reply(q, rejected)
	s.decider.Settle(ctx, &q.Request)
	return response, nil
}

// deadline is the time by which the store has to answer.
func (s *Server) deadline(ctx context.Context, begin time.Time) time.Time {
	end, ok := ctx.Deadline()
	if !ok {
		return begin.Add(s.cfg.Budget)
	}
	return end.Add(-min(end.Sub(begin)/returnShare, returnTime))
}

// errPanicked is the answer to a request that panicked. The cause is in the log and not
// in the answer: clients must not see it.
var errPanicked = status.Error(codes.Internal, "the request met a mistake in this server, which is in its log")

// recoverPanic is deferred where a request is answered: a panic ends that request, and not
// the process with all other requests.
func (s *Server) recoverPanic(call string, err *error) {
	cause := recover()
	if cause == nil {
		return
	}
	s.cfg.Log.Error("rls: request panicked; please report it", "call", call, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	*err = errPanicked
}

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
		attribute.String("weir.domain", legible(request.GetDomain())),
		attribute.Int("weir.descriptors", len(request.GetDescriptors())),
	)
	if err != nil {
		telemetry.Fail(span, err)
		return
	}
	span.SetAttributes(attribute.String("weir.outcome", strings.ToLower(response.GetOverallCode().String())))
}
