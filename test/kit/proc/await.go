package proc

import (
	"strings"
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
