package limit

import "testing"

func TestSlidingWindowTraces(t *testing.T) {
	ten := Spec{Algorithm: SlidingWindow, Count: 10, Period: Second}
	for name, c := range map[string]struct {
		spec Spec
		rows []row
	}{
		"the window before fades, rounded against the asker": {ten, []row{
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
		"nobody asks for a window: forgotten": {ten, []row{
			{900 * ms, need(10), 10, 0, 0, 1100 * ms},
			{2 * Second, need(10), 10, 0, 0, 2 * Second},
		}},
		"need for all waits until both are over": {ten, []row{
			{900 * ms, need(1), 1, 9, 0, 1100 * ms},
			{900 * ms, need(10), 0, 9, 1100 * ms, 1100 * ms},
			{2*Second - 1, need(10), 0, 9, 1, 1},
			{2 * Second, need(10), 10, 0, 0, 2 * Second},
		}},
		"what is asked ahead gets a share, what waits is served": {ten, []row{
			{0, ask(Ask{Want: 10, Askers: 2}), 2, 8, 0, 2 * Second},
			{0, ask(Ask{Need: 1, Waiting: 5, Want: 10, Askers: 2}), 5, 3, 0, 2 * Second},
			{0, ask(Ask{Need: 4, Waiting: 5, Want: 10, Askers: 2}), 0, 3, Second + 142_858, 2 * Second}, // 7 weigh 6 when 6/7 of the next are left
		}},
		"cost 0 and more than ever fits": {ten, []row{
			{0, need(0), 0, 10, 0, 0},
			{0, need(11), 0, 10, Never, 0},
			{0, need(3), 3, 7, 0, 2 * Second},
			{0, need(0), 0, 7, 0, 2 * Second},
		}},
		"given back, also to the window before, which still counts": {ten, []row{
			{900 * ms, need(10), 10, 0, 0, 1100 * ms},
			{900 * ms, back(2), 2, 2, 0, 1100 * ms},
			{Second, back(4), 4, 6, 0, Second},
			{2 * Second, back(4), 0, 10, 0, 0},
		}},
		"overdrawn, up to one limit of debt": {ten, []row{
			{0, overdrawn(30), 0, 0, 0, 2 * Second},
			{0, need(1), 0, 0, 1550 * ms, 2 * Second}, // 20 weigh less than 10 after 11/20 of the next
			{1550 * ms, need(1), 1, 0, 0, 1450 * ms},
		}},
		"a denied need is charged as a penalty": {Spec{Algorithm: SlidingWindow, Count: 10, Period: Second, ChargeDenied: true}, []row{
			{0, need(9), 9, 1, 0, 2 * Second},
			{0, need(2), 0, 0, Second + 272_728, 2 * Second}, // 11 weigh 8 when 8/11 of the next are left
			{Second + 272_728, need(2), 2, 0, 0, Second + 727_272},
		}},
		"count 0 denies everything": {Spec{Algorithm: SlidingWindow, Period: Second}, []row{
			{0, need(1), 0, 0, Never, 0},
			{0, overdrawn(1), 0, 0, 0, 0},
		}},
		"the clock steps back 1 ms, 10 s, an hour; and an hour forward": {ten, []row{
			{0, need(10), 10, 0, 0, 2 * Second},
			{-ms, need(1), 0, 0, 1101 * ms, 2001 * ms},
			{-10 * Second, need(1), 0, 0, 1100 * ms, 2 * Second},
			{-9*Second + 100*ms, need(1), 1, 0, 0, 1900 * ms},
			{-Hour, need(1), 0, 0, 200 * ms, 2 * Second}, // both windows move here
			{Hour, need(10), 10, 0, 0, 2 * Second},
			{0, need(1), 0, 0, 1100 * ms, 2 * Second},
		}},
		"idle for a year": {ten, []row{
			{0, need(10), 10, 0, 0, 2 * Second},
			{365 * Day, need(10), 10, 0, 0, 2 * Second},
		}},
		"3,000,000 a second": {Spec{Algorithm: SlidingWindow, Count: 3_000_000, Period: Second}, []row{
			{Second - 1, need(3_000_000), 3_000_000, 0, 0, Second + 1},
			{Second - 1, need(1), 0, 0, 2, Second + 1},
			{Second + 1, need(3), 3, 0, 0, 2*Second - 1},
			{Second + 1, need(3), 0, 0, 1, 2*Second - 1},
		}},
		"1,000,000 a day: in milliseconds": {Spec{Algorithm: SlidingWindow, Count: 1_000_000, Period: Day}, []row{
			{Day - 1, need(1_000_000), 1_000_000, 0, 0, Day + 1},
			{Day + 500, need(1), 0, 0, 86_500, Day - 500}, // 86.4 ms, in whole ms: at 87 ms
			{Day + 86_999, need(1), 0, 0, 1, Day - 86_999},
			{Day + 87_000, need(1), 1, 0, 0, 2*Day - 87_000},
		}},
		"one a day": {Spec{Algorithm: SlidingWindow, Count: 1, Period: Day}, []row{
			{Hour, need(1), 1, 0, 0, 47 * Hour},
			{Day, need(1), 0, 0, Day, Day},
			{2 * Day, need(1), 1, 0, 0, 2 * Day},
		}},
	} {
		t.Run(name, func(t *testing.T) { runTrace(t, c.spec, c.rows) })
	}
}

// What an old, larger count left in the window before weighs as twice the new one
// at most: more would not fit the arithmetic.
func TestSlidingWindowLoweredCount(t *testing.T) {
	start := epoch / Second * Second
	st := mustNew(t, Spec{Algorithm: SlidingWindow, Count: 1000, Period: Second}).Charge(State{}, start, 1000)
	l := mustNew(t, Spec{Algorithm: SlidingWindow, Count: 10, Period: Second})
	for _, c := range []struct{ at, retry Micros }{{500 * ms, 1050 * ms}, {Second, 550 * ms}, {1549 * ms, ms}, {1550 * ms, 0}} {
		if d := l.Peek(st, start+c.at, 1); d.RetryAfter != c.retry {
			t.Errorf("at %d: %+v, want a wait of %d", c.at, d, c.retry)
		}
	}
}
