package service

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

// notices logs what is wrong with callers, each kind at most once a minute: whoever sends
// something wrong may send it often. It is safe for concurrent use.
type notices struct {
	log                               *slog.Logger
	repeated, giveBacks, wants, calls repeat.OncePerMinute
}

const (
	// runbook says what to do about a caller.
	runbook = "docs/runbooks/WeirCallerWrong.md"
	// maxNotice bounds what of a call's text gets into a line of the log.
	maxNotice = 300
)

// warn logs one kind, with who made the call; nil: nobody that is known.
func (n *notices) warn(kind *repeat.OncePerMinute, x *exchange, text string, about ...any) {
	if !kind.Now() {
		return
	}
	if x != nil {
		about = append(about, x.caller())
	}
	n.log.Warn(text, append(about, "runbook", runbook)...)
}

// caller is who makes a call, for the log. The name of its PoP is what it states.
func (x *exchange) caller() slog.Attr {
	r := &x.request
	who := []any{"holder", hex.EncodeToString(x.holder[:]), "from", x.from}
	if r.Region != "" {
		who = append(who, "region", r.Region)
	}
	if r.Pop != "" {
		who = append(who, "pop", r.Pop[:min(len(r.Pop), wire.MaxPop)])
	}
	return slog.Group("", who...)
}

// rejectCall counts a call that is rejected as a whole, and logs it if its caller is at fault.
func (s *Service) rejectCall(err error, from string) {
	s.metrics.rejected.Inc()
	if errors.Is(err, errTooManyCalls) {
		s.metrics.noMemory.Inc()
	}
	var r *rejection
	if errors.As(err, &r) && r.caller {
		reason := err.Error()
		s.notices.warn(&s.notices.calls, nil, "call rejected", "reason", reason[:min(len(reason), maxNotice)], "from", from)
	}
}

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
