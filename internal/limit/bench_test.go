package limit

import "testing"

// workloads are the decisions that are timed and that may not allocate. Each asks
// for one unit every `every`; the denied ones find the limit spent.
var workloads = []struct {
	name  string
	spec  Spec
	every Micros
}{
	{"token_bucket/granted", Spec{Count: 1_000_000, Period: Second}, 7},
	{"token_bucket/denied", Spec{Count: 1, Period: Day}, 7},
	{"token_bucket/milliseconds", Spec{Count: 50_000_017, Period: Day}, 7 * Second},
	{"fixed_window/granted", Spec{Algorithm: FixedWindow, Count: 1_000_000, Period: Second}, 7},
	{"fixed_window/denied", Spec{Algorithm: FixedWindow, Count: 1, Period: Day}, 1},
	{"fixed_window/first_request", Spec{Algorithm: FixedWindow, Count: 1_000_000, Period: Second, Align: AlignFirstRequest}, 7},
	{"sliding_window/granted", Spec{Algorithm: SlidingWindow, Count: 1_000_000, Period: Second}, 7},
	{"sliding_window/denied", Spec{Algorithm: SlidingWindow, Count: 1, Period: Day}, 1},
	{"sliding_log/granted_1k", Spec{Algorithm: SlidingLog, Count: 1_000, Period: Second}, Millisecond},
	{"sliding_log/granted_100k", Spec{Algorithm: SlidingLog, Count: 100_000, Period: Second}, 10},
	{"sliding_log/denied_100k", Spec{Algorithm: SlidingLog, Count: 100_000, Period: Second}, 5},
	{"sliding_log/penalty_100k", Spec{Algorithm: SlidingLog, Count: 100_000, Period: Second, ChargeRejected: true}, 5},
	{"sliding_log/min_interval", Spec{Algorithm: SlidingLog, Count: 1_000, Period: Second, MinInterval: Millisecond}, Millisecond},
}

// warm is a counter after so many decisions.
func warm(l *Limit, every Micros, decisions int) (State, Micros) {
	var st State
	now := epoch
	for range decisions {
		now += every
		st, _ = l.Acquire(st, now, Ask{Need: 1, Waiting: 1, Want: 1})
	}
	return st, now
}

// BenchmarkDecision times what a lone request asks, asks ahead, by which leases are cut, and peeks.
func BenchmarkDecision(b *testing.B) {
	for _, w := range workloads {
		l := mustNew(b, w.spec)
		for name, decide := range map[string]func(*State, Micros){
			"lone":  func(st *State, now Micros) { l.Decide(st, now, Ask{Need: 1, Waiting: 1, Want: 1, Askers: 3}) },
			"ahead": func(st *State, now Micros) { l.Decide(st, now, Ask{Want: 3, Askers: 3}) },
			"peek":  func(st *State, now Micros) { l.Peek(*st, now, 1) },
		} {
			b.Run(w.name+"/"+name, func(b *testing.B) {
				st, now := warm(l, w.every, 300_000)
				b.ReportAllocs()
				for b.Loop() {
					now += w.every
					decide(&st, now)
				}
			})
		}
	}
}

// A decision allocates nothing, whatever it is; a log that has grown to its size
// neither.
func TestDecisionsAllocateNothing(t *testing.T) {
	for _, w := range workloads {
		w.spec.Count = min(w.spec.Count, 10_000)
		l := mustNew(t, w.spec)
		st, now := warm(l, w.every, 30_000)
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
