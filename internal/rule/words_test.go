package rule_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"pgregory.net/rapid"
)

// TestTimes holds times to the standard library: each second from 1970 to 9999.
func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(0, 253402300799).Draw(t, "seconds")
		at := time.Unix(seconds, 0).UTC()
		want := limit.Micros(seconds) * limit.Second
		if text := rule.FormatTime(want); text != at.Format(time.RFC3339) {
			t.Fatalf("%d is written %s, want %s", seconds, text, at.Format(time.RFC3339))
		}
		if got, ok := rule.ParseTime(at.Format(time.RFC3339)); !ok || got != want {
			t.Fatalf("%s is read as %d, %v, want %d", at, got, ok, want)
		}
	})
	for text, want := range map[string]string{
		"1970-01-01T00:00:00Z": "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z": "9999-12-31T23:59:59Z",
		"2028-02-29T12:00:00Z": "2028-02-29T12:00:00Z", "2028-02-29T12:00:00+01:00": "", "2026-12-01T00:00:00+00:00": "", "2000-02-29T00:00:00Z": "2000-02-29T00:00:00Z",
		"": "", "2026-12-01": "", "2026-12-01T00:00:00": "", "2026-12-01 00:00:00Z": "", "2026-12-01t00:00:00Z": "", "2026-12-01T00:00:00.5Z": "",
		"2026-13-01T00:00:00Z": "", "2026-00-01T00:00:00Z": "", "2026-02-29T00:00:00Z": "", "2100-02-29T00:00:00Z": "", "2026-04-31T00:00:00Z": "",
		"2026-12-00T00:00:00Z": "", "2026-12-01T24:00:00Z": "", "2026-12-01T00:60:00Z": "", "2026-12-01T00:00:60Z": "", "1969-12-31T23:59:59Z": "",
		"1970-01-01T00:00:00+00:01": "", "2026-12-01T00:00:00+24:00": "", "2026-12-01T00:00:00+00:60": "", "2026-12-01T00:00:00+0100": "",
		"2026-12-01T00:00:00 01:00": "", "2026-12-01T00:00:00+-1:00": "", "2026-12-01T00:00:00+01:0x": "", "2026-12-01T00:00:00101:00": "",
		"9999-12-31T23:59:59-00:01": "", "2026-12-01T00:00:00Zx": "", "+026-12-01T00:00:00Z": "",
	} {
		got, ok := rule.ParseTime(text)
		if ok != (want != "") || ok && rule.FormatTime(got) != want {
			t.Errorf("%q is %s, %v, want %q", text, rule.FormatTime(got), ok, want)
		}
	}
}
