package limit

import "testing"

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
