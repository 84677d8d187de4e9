package limit

import "testing"

func TestFixedWindowTraces(t *testing.T) {
	clock := Spec{Algorithm: FixedWindow, Count: 10, Period: Second}
	first := Spec{Algorithm: FixedWindow, Count: 10, Period: Second, Align: AlignFirstRequest}
	for name, c := range map[string]struct {
		spec Spec
		rows []row
	}{
		"windows of the clock": {clock, []row{
			{300 * ms, need(10), 10, 0, 0, 700 * ms},
			{Second - 1, need(1), 0, 0, 1, 1},
			{Second, need(1), 1, 9, 0, Second},
			{Second, need(11), 0, 9, Never, Second},
		}},
		"windows that begin with their first charge, to the microsecond": {first, []row{
			{300*ms + 7, need(0), 0, 10, 0, 0},
			{300*ms + 7, need(11), 0, 10, Never, 0},
			{400*ms + 7, need(10), 10, 0, 0, Second},
			{1400*ms + 6, need(1), 0, 0, 1, 1},
			{1400*ms + 7, need(0), 0, 10, 0, 0},
			{1900 * ms, need(4), 4, 6, 0, Second},
			{1900 * ms, back(4), 4, 10, 0, Second}, // begun is begun
		}},
		"a period that does not divide a day counts from 1970": {Spec{Algorithm: FixedWindow, Count: 1, Period: 7 * Hour}, []row{
			{0, need(1), 1, 0, 0, Hour}, // 19,700 days and an hour are 67,543 * 7 h
			{Hour, need(1), 1, 0, 0, 7 * Hour},
		}},
		"what is asked ahead gets a share, what waits is served": {clock, []row{
			{0, ask(Ask{Want: 10, Askers: 2}), 2, 8, 0, Second},
			{0, ask(Ask{Need: 1, Waiting: 5, Want: 10, Askers: 2}), 5, 3, 0, Second},
			{0, ask(Ask{Need: 1, Waiting: 5, Want: 10, Askers: 2}), 3, 0, 0, Second},
			{0, ask(Ask{Want: 10, Askers: 2}), 0, 0, 0, Second},
		}},
		"cost 0 is a report": {clock, []row{
			{0, need(0), 0, 10, 0, 0},
			{0, need(3), 3, 7, 0, Second},
			{100 * ms, need(0), 0, 7, 0, 900 * ms},
		}},
		"the next window, before it begins": {clock, []row{
			{0, need(9), 9, 1, 0, Second},
			{700 * ms, ask(Ask{Want: 8, Lead: 299 * ms}), 0, 1, 0, 300 * ms}, // too early: this window, whose share is 0
			{700 * ms, ask(Ask{Want: 8, Lead: 300 * ms}), 5, 1, 0, 1300 * ms},
			{700 * ms, need(2), 0, 1, 300 * ms, 1300 * ms},
			{700 * ms, need(6), 0, 1, 1300 * ms, 1300 * ms}, // the next one has 5 left
			{700 * ms, back(2), 2, 1, 0, 1300 * ms},
			{Second, need(8), 0, 7, Second, Second},
			{Second, need(7), 7, 0, 0, Second},
			{2 * Second, need(0), 0, 10, 0, 0},
		}},
		"the next window is not the one after": {clock, []row{
			{700 * ms, ask(Ask{Want: 8, Lead: 300 * ms}), 5, 10, 0, 1300 * ms},
			{2 * Second, need(10), 10, 0, 0, Second},
		}},
		"with its first request, no window can be had early": {first, []row{
			{0, need(1), 1, 9, 0, Second},
			{900 * ms, ask(Ask{Want: 8, Lead: Second}), 4, 5, 0, 100 * ms},
		}},
		"given back to the window it came from, or not at all": {clock, []row{
			{0, need(8), 8, 2, 0, Second},
			{500 * ms, back(3), 3, 5, 0, 500 * ms},
			{500 * ms, back(9), 5, 10, 0, 0},
			{600 * ms, need(8), 8, 2, 0, 400 * ms},
			{Second, need(1), 1, 9, 0, Second},
			{Second, overdrawn(3), 0, 6, 0, Second},
			{2 * Second, back(1), 0, 10, 0, 0},
		}},
		"overdrawn, up to one limit of debt": {clock, []row{
			{0, overdrawn(8), 0, 2, 0, Second},
			{0, overdrawn(100), 0, 0, 0, Second},
			{0, need(1), 0, 0, Second, Second},
			{Second, need(10), 10, 0, 0, Second},
		}},
		"a denied need is charged as a penalty": {Spec{Algorithm: FixedWindow, Count: 10, Period: Second, ChargeDenied: true}, []row{
			{0, need(8), 8, 2, 0, Second},
			{0, need(3), 0, 0, Second, Second},
			{0, need(2), 0, 0, Second, Second},
			{Second, need(2), 2, 8, 0, Second},
		}},
		"count 0 denies everything": {Spec{Algorithm: FixedWindow, Period: Second}, []row{
			{0, need(1), 0, 0, Never, 0},
			{Day, need(0), 0, 0, 0, 0},
		}},
		"the clock steps back 1 ms, 10 s, an hour; and an hour forward": {clock, []row{
			{0, need(10), 10, 0, 0, Second},
			{-ms, need(1), 0, 0, 1001 * ms, 1001 * ms},    // still in that window
			{-10 * Second, need(1), 0, 0, Second, Second}, // ahead by more than a period: moved here
			{-9 * Second, need(4), 4, 6, 0, Second},       // and over a second later
			{-Hour, need(7), 0, 6, Second, Second},
			{Hour, need(10), 10, 0, 0, Second},
			{0, need(1), 0, 0, Second, Second},
		}},
		"and where windows begin with the first request": {first, []row{
			{500 * ms, need(10), 10, 0, 0, Second},
			{499 * ms, need(1), 0, 0, 1001 * ms, 1001 * ms},
			{-10 * Second, need(1), 0, 0, Second, Second},
			{-9 * Second, need(1), 1, 9, 0, Second},
		}},
		"idle for a year": {clock, []row{
			{0, need(10), 10, 0, 0, Second},
			{365 * Day, need(10), 10, 0, 0, Second},
		}},
		"one a day": {Spec{Algorithm: FixedWindow, Count: 1, Period: Day}, []row{
			{Hour, need(1), 1, 0, 0, 23 * Hour},
			{Day - 1, need(1), 0, 0, 1, 1},
			{Day, need(1), 1, 0, 0, Day},
		}},
	} {
		t.Run(name, func(t *testing.T) { runTrace(t, c.spec, c.rows) })
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
