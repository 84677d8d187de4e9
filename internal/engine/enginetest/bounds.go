package enginetest

import (
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/proc"
)

// hammer asks from many goroutines at one moment: exactly the limit is granted.
func hammer(t *testing.T, s Subject) {
	everyAlgorithm(t, 1000, limit.Hour, func(t *testing.T, spec limit.Spec) {
		clk, store, p := s.begin(t, spec)
		var granted atomic.Int64
		proc.Together(8, func(int) {
			for range 300 {
				g := acquire(t, store, p, "k", one(1))
				granted.Add(g.Granted)
			}
		})
		if total := granted.Load() + drainAll(t, s, clk, store, p, "k"); total > 1000 || total < s.least(1000) {
			t.Errorf("2400 requests at once and what was asked after them were granted %d, want 1000", total)
		}
	})
}

// clockSteps: when the clock is set back nothing that was spent comes back, and the limit is not frozen. When it is set
// forward, one more limit is admitted and no more. A store that forgets a key by a clock of its own, as Redis does, keeps it
// for longer than a busy machine stands still.
func clockSteps(t *testing.T, s Subject) {
	everyAlgorithm(t, 10, limit.Minute, func(t *testing.T, spec limit.Spec) {
		clk, store, p := s.begin(t, spec, exact)
		leaves(t, store, p, "k", 10, "at first")
		clk.step(-300 * limit.Millisecond)
		leaves(t, store, p, "k", 0, "300 ms back")
		clk.step(-limit.Hour)
		leaves(t, store, p, "k", 0, "an hour back")
		clk.advance(2 * limit.Minute) // denials in a cache are over: now its store is asked after the step
		if got := drain(t, store, p, "k"); got > 10 {
			t.Errorf("two minutes after the step: %d", got)
		}
		clk.advance(3 * limit.Minute)
		leaves(t, store, p, "k", 10, "three minutes after the step, unless the limit is frozen")
		clk.step(limit.Hour)
		clk.advance(2 * limit.Minute)
		leaves(t, store, p, "k", 10, "an hour forward")
	})
}
