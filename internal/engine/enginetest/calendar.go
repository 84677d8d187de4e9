package enginetest

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// perCalendar is a limit by windows of a calendar.
func perCalendar(t testing.TB, count int64, c limit.Calendar) limit.Spec {
	t.Helper()
	var err error
	if c.Windows, err = calendar.Windows(c); err != nil {
		t.Fatal(err)
	}
	return limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: c.Per.Period(), Calendar: &c}
}

// calendarWindows: windows begin and end when the clock of their zone says so, whatever their length, and a denial
// states when.
func calendarWindows(t *testing.T, s Subject) {
	for _, c := range []struct {
		name, in, ends string
		of             limit.Calendar
	}{
		{"day of 23 hours", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", limit.Calendar{Per: limit.PerDay, Zone: "Europe/Berlin"}},
		{"week from Sunday", "2026-11-01T00:00:00-04:00", "2026-11-08T00:00:00-05:00", limit.Calendar{Per: limit.PerWeek, Anchor: 7, Zone: "America/New_York"}},
		{"month from the 31st", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", limit.Calendar{Per: limit.PerMonth, Anchor: 31, Zone: "UTC"}},
	} {
		for _, consistency := range []lease.Consistency{lease.Exact, lease.Leased} {
			t.Run(c.name+", "+consistency.String(), func(t *testing.T) {
				clk, store, p := s.begin(t, perCalendar(t, 10, c.of), func(terms *lease.Terms) { terms.Consistency = consistency })
				ends := micros(t, c.ends)
				for clk.advance(micros(t, c.in) - clk.now()); clk.now() < ends; clk.advance(ends - clk.now() - limit.Second) {
					g := acquire(t, store, p, "k", one(10))
					if clk.now() < ends-limit.Second && g.Granted != 10 {
						t.Fatalf("%+v, want all of a new window", g)
					}
					denied := acquire(t, store, p, "k", one(1))
					rejected(t, denied, "a window that is used up")
					if left := lease.CeilMillis(ends - clk.now()); max(denied.RetryAfter, denied.Reset) > left+1 || min(denied.RetryAfter, denied.Reset) < left-1 {
						t.Errorf("%+v, and the window ends in %d ms", denied, left)
					}
					if clk.now() == ends-limit.Second {
						break
					}
				}
				clk.advance(limit.Second - limit.Millisecond)
				rejected(t, acquire(t, store, p, "k", one(1)), "a millisecond before the window ends")
				clk.advance(limit.Millisecond)
				if s.Cached && consistency == lease.Exact { // the rejection before was asked for, and is kept for an interval
					clk.advance(limit.Second)
				}
				if g := acquire(t, store, p, "k", one(10)); g.Granted != 10 {
					t.Errorf("%+v, want all of the next window", g)
				}
			})
		}
	}
}

func micros(t testing.TB, text string) limit.Micros {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return limit.Micros(at.UnixMicro())
}
