package limit

import (
	"testing"
)

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

// overdrawn charges units that were admitted without asking.
func overdrawn(units int64) action {
	return func(l *Limit, st State, _ *Decision, now Micros) (State, Decision) {
		st = l.Charge(st, now, units)
		return st, l.Peek(st, now, 0)
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

func mustNew(t testing.TB, s Spec) *Limit {
	t.Helper()
	l, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
