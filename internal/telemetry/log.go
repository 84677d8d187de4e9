package telemetry

import (
	"io"
	"log/slog"
)

// NewLogger makes a logger that writes to w. The format is json, one object a
// line, or text, key=value; the level debug, info, warn or error, below which
// nothing is written. Anything else, which settings do not admit, is text and info.
func NewLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level))
	options := &slog.HandlerOptions{Level: least}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
