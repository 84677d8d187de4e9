package limit

import "testing"

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
