package proc

import (
	"strings"
	"sync"
	"time"
)

// leastWait is how long anything is waited for: a machine that is busy may take many
// times what is usual.
const leastWait = time.Minute

// Await polls until missing returns an empty text, and fails the test with what was
// missing in a poll that began after within, or after a minute if that is longer: a late
// test looks once more.
func Await(t T, within time.Duration, what string, missing func() string) {
	t.Helper()
	within = max(within, leastWait)
	deadline := time.Now().Add(within)
	for {
		last := time.Now().After(deadline)
		left := missing()
		if left == "" {
			return
		}
		if last || t.Context().Err() != nil {
			t.Fatalf("not within %v: %s: %s", within, what, strings.TrimSpace(left))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Eventually polls ok until it is true and fails the test after within.
func Eventually(t T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	Await(t, within, what, func() string {
		if ok() {
			return ""
		}
		return "not yet"
	})
}

// AwaitWindow waits until at least rest is left of the running window of length
// period, clock aligned; it returns the end of that window. It does not wait if
// enough is left already.
func AwaitWindow(period, rest time.Duration) time.Time {
	end := windowEnd(time.Now(), period)
	if time.Until(end) < rest {
		time.Sleep(time.Until(end) + 5*time.Millisecond)
		end = windowEnd(time.Now(), period)
	}
	return end
}

// windowEnd returns the end of the clock-aligned window that t is in.
func windowEnd(t time.Time, period time.Duration) time.Time {
	return t.Truncate(period).Add(period) // Truncate counts from a multiple of every period up to a day
}

// AwaitDay waits for the next day if this one ends soon: most windows of tests last a day, and none
// may end within one.
func AwaitDay() { AwaitWindow(24*time.Hour, 4*time.Minute) }

// Together runs so many at once and waits for all.
func Together(n int, run func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(i) })
	}
	all.Wait()
}
