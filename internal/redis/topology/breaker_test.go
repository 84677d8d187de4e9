package topology

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// What began before the breaker opened does not count after it closed. When it opens is tested with [holder.Breaker].
func TestBreaker(t *testing.T) {
	const jitter = 100 // percent
	type step struct {
		at      lease.Millis
		do      string // begin, report, late (one that began at begin), probe, probed
		outcome outcome
		want    bool // of report, late and probe
		isOpen  bool // after it
	}
	for name, steps := range map[string][]step{
		"what began before it opened is old news": {
			{0, "begin", 0, false, false},
			{1, "report", timedOut, true, true},
			{101, "probe", 0, true, true},
			{102, "probed", answered, false, false},
			{103, "late", timedOut, false, false},
			{104, "late", failed, false, false}, // their client was closed
			{105, "late", failed, false, false},
			{106, "late", failed, false, false},
			{107, "report", failed, false, false}, // the first one that counts
			{108, "report", failed, false, false},
			{109, "late", answered, false, false}, // which is no good sign either
			{110, "report", failed, true, true},
		},
		"and what began before it opened last": {
			{0, "report", timedOut, true, true},
			{100, "probe", 0, true, true},
			{101, "probed", answered, false, false},
			{102, "begin", 0, false, false},
			{103, "late", failed, false, false},
			{104, "late", failed, false, false},
			{105, "late", failed, true, true},
			{106, "late", failed, false, true},
			{205, "probe", 0, true, true},
			{206, "probed", answered, false, false},
			{207, "late", timedOut, false, false},
			{208, "report", timedOut, true, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b breaker
			var began uint64
			for i, s := range steps {
				now := s.at
				var got bool
				switch s.do {
				case "begin":
					began = b.generation
				case "report":
					_, got = b.report(b.generation, s.outcome, now, jitter)
				case "late":
					_, got = b.report(began, s.outcome, now, jitter)
				case "probe":
					got = b.ProbeDue(now)
				case "probed":
					if s.outcome == answered {
						b.Answered(0)
					} else {
						b.Probed(now, jitter)
					}
				}
				if got != s.want || b.Open != s.isOpen {
					t.Fatalf("step %d, %s at %v: %v, open %v; want %v, %v", i, s.do, now, got, b.Open, s.want, s.isOpen)
				}
			}
		})
	}
}
