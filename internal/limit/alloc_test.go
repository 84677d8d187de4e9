package limit

import "testing"

// A decision allocates nothing, whatever it is; a log that has grown to its size
// neither.
func TestDecisionsAllocateNothing(t *testing.T) {
	for _, w := range []struct {
		name  string
		spec  Spec
		every Micros // between two asks for one unit; the denied ones find the limit spent
	}{
		{"token_bucket/granted", Spec{Count: 10_000, Period: Second}, 7},
		{"token_bucket/denied", Spec{Count: 1, Period: Day}, 7},
		{"token_bucket/milliseconds", Spec{Count: 999_983, Period: Day}, 7 * Second},
		{"fixed_window/granted", Spec{Algorithm: FixedWindow, Count: 10_000, Period: Second}, 7},
		{"fixed_window/denied", Spec{Algorithm: FixedWindow, Count: 1, Period: Day}, 1},
		{"fixed_window/first_request", Spec{Algorithm: FixedWindow, Count: 10_000, Period: Second, Align: AlignFirstRequest}, 7},
		{"sliding_window/granted", Spec{Algorithm: SlidingWindow, Count: 10_000, Period: Second}, 7},
		{"sliding_window/denied", Spec{Algorithm: SlidingWindow, Count: 1, Period: Day}, 1},
		{"sliding_log/granted", Spec{Algorithm: SlidingLog, Count: 1000, Period: Second}, Millisecond},
		{"sliding_log/denied", Spec{Algorithm: SlidingLog, Count: 10_000, Period: Second}, 5},
		{"sliding_log/penalty", Spec{Algorithm: SlidingLog, Count: 10_000, Period: Second, ChargeRejected: true}, 5},
		{"sliding_log/min_interval", Spec{Algorithm: SlidingLog, Count: 1000, Period: Second, MinInterval: Millisecond}, Millisecond},
	} {
		l := mustNew(t, w.spec)
		var st State
		now := epoch
		for range 30_000 {
			now += w.every
			st, _ = l.Acquire(st, now, Ask{Need: 1, Waiting: 1, Want: 1})
		}
		lone := Ask{Need: 1, Waiting: 1, Want: 1}
		for name, decide := range map[string]func(){
			"acquire": func() { st, _ = l.Acquire(st, now, lone) },
			"decide":  func() { l.Decide(&st, now, lone) },
			"ahead":   func() { l.Decide(&st, now, Ask{Want: 3, Lead: Second}) },
			"peek":    func() { l.Peek(st, now, 1) },
			"return":  func() { st, _ = l.Return(st, now, now, 1) },
			"charge":  func() { st = l.Charge(st, now, 1) },
			"fresh":   func() { l.Fresh(st, now) },
		} {
			step := func() {
				now += w.every
				decide()
			}
			for range max(1, 2*cap(st.Log)) { // a log may grow to its size first
				step()
			}
			if n := testing.AllocsPerRun(2_000, step); n != 0 {
				t.Errorf("%s: %s allocates %v times", w.name, name, n)
			}
		}
	}
	l := mustNew(t, Spec{Algorithm: Concurrency, Count: 4})
	st, now := Slots{}, epoch
	if n := testing.AllocsPerRun(1_000, func() {
		now += Millisecond
		st, _ = l.Hold(st, now, 1, 1, 2)
		st, _ = l.AcquireSlot(st, now, 2, 1)
		st, _ = l.AcquireSlot(st, now, 3, 3)
		st, _ = l.RenewSlot(st, now, 2)
		st, _ = l.ReleaseSlot(st, now, 2)
	}); n != 0 {
		t.Errorf("slots: %v allocations", n)
	}
}
