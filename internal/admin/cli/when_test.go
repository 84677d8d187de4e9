package cli

import (
	"testing"
	"time"
)

// A point in time is a length of time from now, as in rules, or a time with a zone or of this machine's.
func TestWhen(t *testing.T) {
	was := time.Local
	time.Local = time.FixedZone("", 2*60*60)
	defer func() { time.Local = was }()
	var e End
	if err := e.UnmarshalText([]byte("1d12h")); err != nil || (time.Until(e.Time)-36*time.Hour).Abs() > time.Minute {
		t.Errorf("1d12h is %v, %v", e, err)
	}
	for text, want := range map[string]string{
		"2026-12-04": "2026-12-03T22:00:00Z", "2026-12-04T18:00": "2026-12-04T16:00:00Z", "2026-12-04T18:00:30": "2026-12-04T16:00:30Z",
		"2026-12-04T18:00:00Z": "2026-12-04T18:00:00Z", "2026-12-04T18:00:00-01:00": "2026-12-04T19:00:00Z",
	} {
		if err := e.UnmarshalText([]byte(text)); err != nil || e.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s is %v, %v; want %s", text, e, err, want)
		}
	}
	for _, text := range []string{"", "7", "-1h", "tomorrow", "2026-13-01", "18:00"} {
		var s Span
		if s.UnmarshalText([]byte(text)) == nil || e.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a time: %v, %v", text, time.Duration(s), e)
		}
	}
}
