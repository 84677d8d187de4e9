package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/rule"
)

// Span is a length of time on the command line: 90s, 1h30m, 7d or 1d12h. It is not negative.
type Span time.Duration

// UnmarshalText reads it.
func (s *Span) UnmarshalText(text []byte) error {
	length, ok := rule.ParsePeriod(string(text))
	if !ok {
		return fmt.Errorf("%q must be how long, such as 90s, 1h30m or 7d", text)
	}
	*s = Span(time.Duration(length) * time.Microsecond)
	return nil
}

// End is a point in time on the command line: how long from now, as a [Span]; or a date, which is its first moment; or a
// date and a time. One without a zone is of this machine's zone.
type End struct{ time.Time }

// UnmarshalText reads it.
func (e *End) UnmarshalText(text []byte) (err error) {
	var s Span
	if s.UnmarshalText(text) == nil {
		e.Time = time.Now().Add(time.Duration(s)).Truncate(time.Second)
		return nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339} {
		if e.Time, err = time.ParseInLocation(layout, string(text), time.Local); err == nil {
			return nil
		}
	}
	return errors.New("must be a time, such as 2026-12-04 or 2026-12-04T18:00, or how long from now, such as 7d or 1h")
}
