package telemetry

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// NewLogger makes a logger that writes to w. The format is json, one object a
// line, or text, key=value; the level debug, info, warn or error, below which
// nothing is written. Anything else, which settings do not admit, is text and info.
// A line about a request whose span is sampled has its trace_id and span_id.
func NewLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level))
	options := &slog.HandlerOptions{Level: least}
	if format == "json" {
		return slog.New(traced{slog.NewJSONHandler(w, options)})
	}
	return slog.New(traced{slog.NewTextHandler(w, options)})
}

// traced adds the ids of the span in the context of a line.
type traced struct{ slog.Handler }

func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return t.Handler.Handle(ctx, r)
}

func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }
func (t traced) WithGroup(name string) slog.Handler       { return traced{t.Handler.WithGroup(name)} }
