package cli

import (
	"testing"
	"time"
)

// A length of time has one grammar, and a point in time is a length from now, or a time with a zone or of this machine's.
func TestWhen(t *testing.T) {
	was := time.Local
	time.Local = time.FixedZone("", 2*60*60)
	defer func() { time.Local = was }()
	const hour, day = time.Hour, 24 * time.Hour
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * day, "1d12h": 36 * hour, "0d": 0, "100000d": 100_000 * day} {
		var s Span
		if err := s.UnmarshalText([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%s: %v, %v", text, time.Duration(s), err)
		}
		var e End
		if err := e.UnmarshalText([]byte(text)); err != nil || (time.Until(e.Time)-want).Abs() > time.Minute {
			t.Errorf("%s is %v, %v", text, e, err)
		}
	}
	for text, want := range map[string]string{
		"2026-12-04": "2026-12-03T22:00:00Z", "2026-12-04T18:00": "2026-12-04T16:00:00Z", "2026-12-04T18:00:30": "2026-12-04T16:00:30Z",
		"2026-12-04T18:00:00Z": "2026-12-04T18:00:00Z", "2026-12-04T18:00:00-01:00": "2026-12-04T19:00:00Z",
	} {
		var e End
		if err := e.UnmarshalText([]byte(text)); err != nil || e.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s is %v, %v; want %s", text, e, err, want)
		}
	}
	for _, text := range []string{"", "0", "d", "-1h", "1d-1h", "1h1d", "7", "200000d", "2500000h", "99999999999999999999d", "tomorrow", "2026-13-01", "18:00"} {
		var s Span
		var e End
		if s.UnmarshalText([]byte(text)) == nil || e.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a time: %v, %v", text, time.Duration(s), e)
		}
	}
}
