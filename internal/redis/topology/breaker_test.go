package topology

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// What began before the breaker opened does not count after it closed. When it opens is tested with [holder.Breaker].
func TestBreaker(t *testing.T) {
	const jitter = 100 // percent
	var b breaker
	report := func(generation uint64, o outcome, now lease.Millis, counts, opened bool) {
		t.Helper()
		if gotCounts, gotOpened := b.report(generation, o, now, jitter); gotCounts != counts || gotOpened != opened {
			t.Fatalf("at %d: counts %v and opened it %v, want %v and %v; %+v", now, gotCounts, gotOpened, counts, opened, b)
		}
	}
	report(0, timedOut, 1, true, true)
	report(0, answered, 2, false, false) // only a probe closes it
	if b.ProbeDue(100) || !b.ProbeDue(101) {
		t.Errorf("no probe is due 100 ms later: %+v", b)
	}
	b.Answered(0)
	for now := lease.Millis(103); now < 107; now++ {
		report(0, failed, now, false, false) // their client was closed
	}
	report(1, failed, 107, true, false)
	report(1, failed, 108, true, false)
	report(0, answered, 109, false, false) // which is no good sign either
	report(1, failed, 110, true, true)
	b.Answered(0)
	report(1, timedOut, 211, false, false)
	report(2, timedOut, 212, true, true)
}
