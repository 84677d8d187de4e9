package limit

import (
	"testing"

	"pgregory.net/rapid"
)

const ms = Millisecond

// row is one line of a trace: what is done at a time after the epoch, and what
// must come of it.
type row struct {
	at Micros
	do action

	granted   int64 // or accepted, of units given back
	remaining int64
	retry     Micros
	reset     Micros
}

// action is what a row does; it returns what came of it, in the words of a row.
type action func(l *Limit, st State, last *Decision, now Micros) (State, Decision)

// ask asks; need(n) is a lone request of cost n.
func ask(a Ask) action {
	return func(l *Limit, st State, last *Decision, now Micros) (State, Decision) {
		st, d := l.Acquire(st, now, a)
		if d.Granted > 0 {
			*last = d
		}
		return st, d
	}
}

func need(n int64) action { return ask(Ask{Need: n, Waiting: n, Want: n}) }

// back gives units of the last grant back.
func back(units int64) action {
	return func(l *Limit, st State, last *Decision, now Micros) (State, Decision) {
		st, got := l.Return(st, now, last.Period, units)
		d := l.Peek(st, now, 0)
		d.Granted = got
		return st, d
	}
}

// runTrace replays rows on a new counter. The epoch of traces is a multiple of
// every period up to a day.
func runTrace(t *testing.T, s Spec, rows []row) {
	t.Helper()
	l := mustNew(t, s)
	const epoch = 19_700 * Day
	var st State
	var last Decision
	for i, r := range rows {
		var d Decision
		st, d = r.do(l, st, &last, epoch+r.at)
		got := row{granted: d.Granted, remaining: d.Remaining, retry: d.RetryAfter, reset: d.Reset}
		if got.granted != r.granted || got.remaining != r.remaining || got.retry != r.retry || got.reset != r.reset {
			t.Errorf("row %d, at %v µs:\n got granted %d, remaining %d, retry %d, reset %d\nwant granted %d, remaining %d, retry %d, reset %d",
				i, r.at, got.granted, got.remaining, got.retry, got.reset, r.granted, r.remaining, r.retry, r.reset)
		}
	}
}

// A plain trace for each algorithm, with numbers to read, and what a definition in replay_test.go
// shares with the code: what a clock that steps back does, where windows begin, and when waiting
// does not help.
func TestTraces(t *testing.T) {
	perSecond := Spec{Count: 10, Period: Second} // a token per 100 ms
	fixed := Spec{Algorithm: FixedWindow, Count: 10, Period: Second}
	first := Spec{Algorithm: FixedWindow, Count: 10, Period: Second, Align: AlignFirstRequest}
	sliding := Spec{Algorithm: SlidingWindow, Count: 10, Period: Second}
	log := Spec{Algorithm: SlidingLog, Count: 3, Period: Second}
	for name, c := range map[string]struct {
		spec Spec
		rows []row
	}{
		"token bucket: a new bucket is full, then a token each 100 ms": {perSecond, []row{
			{0, need(10), 10, 0, 0, Second},
			{0, need(1), 0, 0, 100 * ms, Second},
			{100*ms - 1, need(1), 0, 0, 1, 900*ms + 1},
			{100 * ms, need(1), 1, 0, 0, Second},
			{399 * ms, need(1), 1, 1, 0, 801 * ms},
		}},
		"token bucket: the clock steps back 1 ms, 10 s, an hour; and an hour forward": {perSecond, []row{
			{0, need(10), 10, 0, 0, Second},
			{-ms, need(1), 0, 0, 101 * ms, 1001 * ms},
			{100 * ms, need(1), 1, 0, 0, Second},
			{-1400 * ms, need(1), 0, 0, 100 * ms, Second}, // ahead by more than a period: now counts
			{-10 * Second, need(1), 0, 0, 100 * ms, Second},
			{-10*Second + 100*ms, need(1), 1, 0, 0, Second},
			{-Hour, need(1), 0, 0, 100 * ms, Second},
			{Hour, need(10), 10, 0, 0, Second},
			{0, need(1), 0, 0, 100 * ms, Second},
		}},
		"token bucket: a wait of more than 142 years is never": {Spec{Count: 1, Period: Day, Burst: 1_000_000}, []row{
			{0, need(1_000_000), 1_000_000, 0, 0, Never},
			{0, need(52_124), 0, 0, 52_124 * Day, Never},
			{0, need(52_125), 0, 0, Never, Never},
		}},
		"fixed window: windows of the clock": {fixed, []row{
			{300 * ms, need(10), 10, 0, 0, 700 * ms},
			{Second - 1, need(1), 0, 0, 1, 1},
			{Second, need(1), 1, 9, 0, Second},
			{Second, need(11), 0, 9, Never, Second},
		}},
		"fixed window: windows that begin with their first charge, to the microsecond": {first, []row{
			{300*ms + 7, need(0), 0, 10, 0, 0},
			{300*ms + 7, need(11), 0, 10, Never, 0},
			{400*ms + 7, need(10), 10, 0, 0, Second},
			{1400*ms + 6, need(1), 0, 0, 1, 1},
			{1400*ms + 7, need(0), 0, 10, 0, 0},
			{1900 * ms, need(4), 4, 6, 0, Second},
			{1900 * ms, back(4), 4, 10, 0, Second}, // begun is begun
		}},
		"fixed window: a period that does not divide a day counts from 1970": {Spec{Algorithm: FixedWindow, Count: 1, Period: 7 * Hour}, []row{
			{0, need(1), 1, 0, 0, Hour}, // 19,700 days and an hour are 67,543 * 7 h
			{Hour, need(1), 1, 0, 0, 7 * Hour},
		}},
		"fixed window: the clock steps back 1 ms, 10 s, an hour; and an hour forward": {fixed, []row{
			{0, need(10), 10, 0, 0, Second},
			{-ms, need(1), 0, 0, 1001 * ms, 1001 * ms},      // still in that window
			{-1400 * ms, need(1), 0, 0, 400 * ms, 400 * ms}, // ahead by more than a period: moved here
			{-10 * Second, need(1), 0, 0, Second, Second},
			{-9 * Second, need(4), 4, 6, 0, Second}, // and over a second later
			{-Hour, need(7), 0, 6, Second, Second},
			{Hour, need(10), 10, 0, 0, Second},
			{0, need(1), 0, 0, Second, Second},
		}},
		"sliding window: the window before fades, rounded against the asker": {sliding, []row{
			{900 * ms, need(10), 10, 0, 0, 1100 * ms},
			{900 * ms, need(1), 0, 0, 200 * ms, 1100 * ms}, // a tenth of the next window
			{Second, need(1), 0, 0, 100 * ms, Second},
			{1100*ms - 1, need(1), 0, 0, 1, 900*ms + 1},
			{1100 * ms, need(1), 1, 0, 0, 1900 * ms},
			{1150 * ms, need(1), 0, 0, 50 * ms, 1850 * ms},
			{1500 * ms, need(5), 0, 4, 100 * ms, 1500 * ms},
			{1999 * ms, need(9), 0, 8, ms, 1001 * ms}, // 10 * 1/1000 still weighs as one
			{2 * Second, need(9), 9, 0, 0, 2 * Second},
			{3 * Second, need(1), 1, 0, 0, 2 * Second}, // 9 of 10 weigh in full
		}},
		"sliding window: the clock steps back 1 ms, 10 s, an hour; and an hour forward": {sliding, []row{
			{0, need(10), 10, 0, 0, 2 * Second},
			{-ms, need(1), 0, 0, 1101 * ms, 2001 * ms},
			{-1400 * ms, need(1), 0, 0, 500 * ms, 1400 * ms},
			{-10 * Second, need(1), 0, 0, 1100 * ms, 2 * Second},
			{-9*Second + 100*ms, need(1), 1, 0, 0, 1900 * ms},
			{-Hour, need(1), 0, 0, 200 * ms, 2 * Second}, // both windows move here
			{Hour, need(10), 10, 0, 0, 2 * Second},
			{0, need(1), 0, 0, 1100 * ms, 2 * Second},
		}},
		"sliding window: while the clock is behind, the window before counts in full": {sliding, []row{
			{900 * ms, need(5), 5, 5, 0, 1100 * ms},
			{Second, need(0), 0, 5, 0, Second},
			{999 * ms, need(0), 0, 5, 0, 1001 * ms},
		}},
		"sliding log: each charge counts for exactly one period": {log, []row{
			{0, need(1), 1, 2, 0, Second},
			{400 * ms, need(2), 2, 0, 0, Second},
			{400 * ms, need(1), 0, 0, 600 * ms, Second},
			{Second - 1, need(1), 0, 0, 1, 400*ms + 1},
			{Second, need(1), 1, 0, 0, Second},
			{Second, need(2), 0, 0, 400 * ms, Second},
			{Second, need(3), 0, 0, Second, Second},
			{1400 * ms, need(2), 2, 0, 0, Second},
		}},
		"sliding log: a least interval: one need at a time, never ahead": {Spec{Algorithm: SlidingLog, Count: 3, Period: Second, MinInterval: 100 * ms}, []row{
			{0, ask(Ask{Want: 3}), 0, 3, 0, 0},
			{0, ask(Ask{Need: 1, Waiting: 3, Want: 3}), 1, 0, 0, Second},
			{100*ms - 1, need(1), 0, 0, 1, 900*ms + 1},
			{100 * ms, need(2), 2, 0, 0, Second},
			{100 * ms, need(1), 0, 0, 900 * ms, Second}, // the limit binds longer than the interval
			{Second, need(1), 1, 0, 0, Second},
			{1050 * ms, need(1), 0, 0, 50 * ms, 950 * ms}, // the interval longer than the limit
			{1050 * ms, back(1), 1, 1, 0, 50 * ms},        // it was not used after all
		}},
		"sliding log: the clock steps back 1 ms, 10 s, an hour; and an hour forward": {log, []row{
			{0, need(2), 2, 1, 0, Second},
			{-ms, need(1), 1, 0, 0, 1001 * ms},
			{-ms, need(1), 0, 0, 1001 * ms, 1001 * ms},
			{-1400 * ms, need(1), 0, 0, Second, Second},
			{-10 * Second, need(1), 0, 0, Second, Second},
			{-9 * Second, need(3), 3, 0, 0, Second},
			{-Hour, need(1), 0, 0, Second, Second},
			{Hour, need(3), 3, 0, 0, Second},
			{0, need(1), 0, 0, Second, Second},
		}},
		"sliding log: a lease that is out stays ahead when the clock was wrong": {Spec{Algorithm: SlidingLog, Count: 10, Period: Second}, []row{
			{0, ask(Ask{Want: 10}), 5, 5, 0, 1020 * ms},
			{-10 * Second, need(6), 0, 5, 1020 * ms, 1020 * ms},
		}},
	} {
		t.Run(name, func(t *testing.T) { runTrace(t, c.spec, c.rows) })
	}
}

func mustNew(t rapid.TB, s Spec) *Limit {
	t.Helper()
	l, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
