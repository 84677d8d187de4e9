package limit

import "testing"

func BenchmarkDecision(b *testing.B) {
	for _, s := range []struct {
		name string
		Spec
	}{
		{"token_bucket", Spec{Count: 1000, Period: Second}},
		{"fixed_window", Spec{Algorithm: FixedWindow, Count: 1000, Period: Second}},
		{"sliding_window", Spec{Algorithm: SlidingWindow, Count: 1000, Period: Second}},
		{"sliding_log", Spec{Algorithm: SlidingLog, Count: 1000, Period: Second}},
		{"sliding_log_100k", Spec{Algorithm: SlidingLog, Count: 100_000, Period: Minute}},
	} {
		b.Run(s.name, func(b *testing.B) {
			l, err := New(s.Spec)
			if err != nil {
				b.Fatal(err)
			}
			var st State
			now := 1_700_000_000 * Second
			b.ReportAllocs()
			for b.Loop() {
				now += 700
				st, _ = l.Acquire(st, now, Ask{Need: 1, Waiting: 1, Want: 1, Askers: 3})
			}
		})
	}
}
