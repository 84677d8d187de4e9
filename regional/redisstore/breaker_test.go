package redisstore

import (
	"testing"
	"time"
)

// A breaker opens upon a timeout or three errors in a row, lets one probe through
// at a time, and closes when one is answered.
func TestBreaker(t *testing.T) {
	const wait = probeEvery
	type step struct {
		at     time.Duration // in milliseconds
		do     string        // report, probe, probed
		tell   outcome
		want   bool // of report and probe
		isOpen bool // after it
	}
	for name, steps := range map[string][]step{
		"answers": {
			{0, "report", answered, false, false},
			{1, "probe", 0, false, false},
		},
		"two errors in a row are nothing": {
			{0, "report", failed, false, false},
			{1, "report", failed, false, false},
			{2, "report", answered, false, false},
			{3, "report", failed, false, false},
			{4, "report", failed, false, false},
			{5, "report", failed, true, true},
		},
		"one timeout": {
			{0, "report", timedOut, true, true},
			{1, "report", answered, false, true}, // sent before it opened
			{2, "report", timedOut, false, true}, // the same: it prolongs nothing
			{99, "probe", 0, false, true},
			{100, "probe", 0, true, true},
			{101, "probe", 0, false, true}, // one is under way
			{200, "probed", timedOut, false, true},
			{299, "probe", 0, false, true},
			{300, "probe", 0, true, true},
			{301, "probed", failed, false, true},
			{401, "probe", 0, true, true},
			{402, "probed", answered, false, false},
			{403, "report", failed, false, false}, // errors count from none again
			{404, "report", failed, false, false},
			{405, "report", failed, true, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b breaker
			for i, s := range steps {
				now := s.at * time.Millisecond
				var got bool
				switch s.do {
				case "report":
					got = b.report(s.tell, now, wait)
				case "probe":
					got = b.probe(now)
				case "probed":
					b.probed(s.tell, now, wait)
				}
				if got != s.want || b.open != s.isOpen {
					t.Fatalf("step %d, %s at %v: %v, open %v; want %v, %v", i, s.do, now, got, b.open, s.want, s.isOpen)
				}
			}
		})
	}
}
