package clocks

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A clock is called wrong only if it surely is: not for what a long trip or a coarse resolution
// leaves open.
func TestMeasure(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name              string
		ahead, resolution time.Duration // of the other clock, when it was read
		there, back       time.Duration
		middle            time.Duration
		apart             bool
	}{
		{"the same", 0, 0, 50 * time.Millisecond, 50 * time.Millisecond, 0, false},
		{"an hour ahead", time.Hour, 0, 50 * time.Millisecond, 50 * time.Millisecond, time.Hour, true},
		{"an hour behind", -time.Hour, 0, 50 * time.Millisecond, 50 * time.Millisecond, -time.Hour, true},
		{"an hour behind, in seconds", -time.Hour, time.Second, 50 * time.Millisecond, 50 * time.Millisecond, -time.Hour + 450*time.Millisecond, true},
		{"a slow answer", 0, 0, 0, 8 * time.Second, -4 * time.Second, false},
		{"a slow question", 0, 0, 8 * time.Second, 0, 4 * time.Second, false},
		{"slow and wrong", 5 * time.Second, 0, 0, 8 * time.Second, time.Second, false},
		{"tolerated", 2 * time.Second, 0, 0, 0, 2 * time.Second, false},
		{"not tolerated", 2*time.Second + 1, 0, 0, 0, 2*time.Second + 1, true},
		{"the second in which it is read", 2500 * time.Millisecond, time.Second, 0, 0, 2500 * time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			shown := sent.Add(c.there + c.ahead)
			if c.resolution > 0 {
				shown = shown.Truncate(c.resolution)
			}
			o := Measure(shown, c.resolution, sent, sent.Add(c.there+c.back))
			if o.Least > c.ahead || o.Most < c.ahead {
				t.Errorf("%v does not contain %v", o, c.ahead)
			}
			if o.Middle() != c.middle || o.Apart() != c.apart {
				t.Errorf("middle %v, apart %v; want %v, %v", o.Middle(), o.Apart(), c.middle, c.apart)
			}
		})
	}
}

// Clocks that are apart are logged once a minute, and once when they agree again.
func TestNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		var c Other
		if !math.IsNaN(c.Ahead()) {
			t.Errorf("ahead by %v before it was read", c.Ahead())
		}
		note := func(ahead time.Duration) {
			c.Note(Offset{ahead - time.Millisecond, ahead + time.Millisecond}, log, "a Redis master", "10.0.0.1:6379", "windows begin at other times")
		}
		note(time.Millisecond)
		if text.Len() > 0 {
			t.Errorf("clocks that agree are logged: %s", &text)
		}
		for range 120 {
			note(-time.Hour)
			time.Sleep(time.Second)
		}
		if n := strings.Count(text.String(), "level=WARN"); n != 2 || !strings.Contains(text.String(), "ahead=-1h0m0s") || !strings.Contains(text.String(), "address=10.0.0.1:6379") {
			t.Errorf("%d warnings in two minutes:\n%s", n, &text)
		}
		if c.Ahead() != -3600 {
			t.Errorf("ahead by %v s", c.Ahead())
		}
		for range 3 {
			note(0)
		}
		if n := strings.Count(text.String(), "level=INFO"); n != 1 {
			t.Errorf("%d lines that they agree again:\n%s", n, &text)
		}
	})
}

// An HTTP date is cut to seconds: a clock that is 2.5 s off is measured with up to a second less. What is
// between is neither apart nor agrees, so the log has no line for each second.
func TestNoteOfSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		var c Other
		note := func(ahead time.Duration) {
			now := time.Now()
			c.Note(Measure(now.Add(ahead).Truncate(time.Second), time.Second, now, now), log, "the aggregator", "10.0.0.1:9000", "windows begin at other times")
		}
		for range 100 {
			note(2500 * time.Millisecond)
			time.Sleep(130 * time.Millisecond)
		}
		if n := strings.Count(text.String(), "\n"); n != 1 {
			t.Errorf("%d lines in 13 s:\n%s", n, &text)
		}
		for range 100 {
			note(200 * time.Millisecond)
			time.Sleep(130 * time.Millisecond)
		}
		if n := strings.Count(text.String(), "level=INFO"); n != 1 {
			t.Errorf("%d lines when they agree again:\n%s", n, &text)
		}
	})
}
