package limit

import "testing"

// months is a calendar whose years have no leap day, and begin at multiples of 365 days since 1970.
var months = &Calendar{Per: PerMonth, Anchor: 1, Zone: "UTC", Windows: monthLengths{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}}

// monthLengths are the lengths of months in days.
type monthLengths [12]Micros

func (m monthLengths) Around(at Micros) *[6]Micros {
	begin, i := at-at%(365*Day)-365*Day, 0
	var b [6]Micros
	for ; begin <= at; i++ {
		b[0], b[1] = b[1], begin
		begin += m[i%12] * Day
	}
	for k := 2; k < len(b); k++ {
		b[k] = begin
		begin += m[i%12] * Day
		i++
	}
	return &b
}

// A lease and a denial at the end of a month end with it, whatever its length; what was charged ahead counts in the next.
func TestCalendarMonths(t *testing.T) {
	l := mustNew(t, Spec{Algorithm: FixedWindow, Count: 100, Period: 30 * Day, Calendar: months})
	at := epoch - epoch%(365*Day) // 1 January
	for i, days := range months.Windows.(monthLengths) {
		end := at + days*Day
		st, d := l.Acquire(State{}, at, Ask{Need: 90, Want: 90})
		if d.Granted != 90 || d.Period != at || d.Reset != days*Day {
			t.Fatalf("month %d: %+v", i, d)
		}
		st, d = l.Acquire(st, end-Second, Ask{Need: 20, Want: 20})
		if d.RetryAfter != Second || d.Remaining != 10 || d.Reset != Second {
			t.Fatalf("month %d: a second before its end %+v", i, d)
		}
		st, d = l.Acquire(st, end-Second, Ask{Want: 30, Lead: 2 * Second})
		if d.Granted != 30 || d.Period != end || d.StartsIn != Second || l.Runs(st.At, end-Second) != Second {
			t.Fatalf("month %d: ahead %+v", i, d)
		}
		if _, d = l.Acquire(st, end, Ask{Need: 71, Want: 71}); d.Granted != 0 || d.Remaining != 70 || d.RetryAfter != months.Windows.Around(end)[2]-end {
			t.Fatalf("month %d: after its end %+v", i, d)
		}
		if _, d = l.Acquire(st, months.Windows.Around(end)[2], Ask{Need: 100, Want: 100}); d.Granted != 100 {
			t.Fatalf("month %d: a month later %+v", i, d)
		}
		at = end
	}
}

// Where nobody knows the calendar its windows have the nominal length.
func TestCalendarUnknown(t *testing.T) {
	l := mustNew(t, Spec{Algorithm: FixedWindow, Count: 100, Period: 30 * Day, Calendar: &Calendar{Per: PerMonth, Anchor: 1, Zone: "UTC"}})
	if start, end := l.WindowAt(epoch); start != epoch-epoch%(30*Day) || end != start+30*Day {
		t.Errorf("a window from %d to %d", start, end)
	}
}

// A lease's life: until its window ends, and for the next window from the flip.
func TestFixedWindowLeases(t *testing.T) {
	l := mustNew(t, Spec{Algorithm: FixedWindow, Count: 100, Period: Minute})
	start := epoch / Minute * Minute
	for _, c := range []struct {
		name              string
		charged           int64
		at                Micros
		ask               Ask
		period, from, ttl Micros
	}{
		{"half is left: ten seconds", 50, 10 * Second, Ask{Want: 1}, start, 0, 10 * Second},
		{"less is left: one second", 51, 10 * Second, Ask{Want: 1}, start, 0, Second},
		{"the window ends before", 0, 55 * Second, Ask{Want: 1}, start, 0, 5 * Second},
		{"the window ends before the second", 60, Minute - 1, Ask{Want: 1}, start, 0, 1},
		{"the next window: ten seconds of it", 0, 58 * Second, Ask{Want: 1, Lead: 2 * Second}, start + Minute, 2 * Second, 12 * Second},
		{"somebody waits: this window", 0, 58 * Second, Ask{Need: 1, Want: 1, Lead: 2 * Second}, start, 0, 2 * Second},
	} {
		st := l.Charge(State{}, start, c.charged)
		_, d := l.Acquire(st, start+c.at, c.ask)
		if d.Granted != 1 || d.Period != c.period || d.StartsIn != c.from || d.TTL != c.ttl {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}
