package limit

import (
	"testing"

	"pgregory.net/rapid"
)

// Long traces at one pace, so that much expires and its memory is used again.
func TestSlidingLogReclaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := mustNew(t, Spec{Algorithm: SlidingLog, Count: rapid.Int64Range(1, 300).Draw(t, "count"), Period: Second})
		steps := make([]step, rapid.IntRange(1, 1500).Draw(t, "length"))
		pace := Second / Micros(rapid.Int64Range(1, 600).Draw(t, "per second"))
		ahead := rapid.Int64Range(0, 3).Draw(t, "ahead")
		for i := range steps {
			steps[i] = step{after: pace, ask: Ask{Need: 1, Waiting: 1, Want: 1 + ahead*int64(i%2)}}
			if i%7 == 6 {
				steps[i].op, steps[i].units = opReturnByID, 1
			}
		}
		replay(t, l, steps)
	})
}

// The memory of a log follows what is live in it.
func TestSlidingLogStaysSmall(t *testing.T) {
	l := mustNew(t, Spec{Algorithm: SlidingLog, Count: 100_000, Period: Minute})
	var st State
	now := epoch
	for range 100_000 { // a burst
		st, _ = l.Acquire(st, now, Ask{Need: 1, Waiting: 1, Want: 1})
		now++
	}
	if cap(st.Log) < 100_000 {
		t.Fatal("the burst was not logged")
	}
	for range 1_000 { // then one a second
		now += Second
		st, _ = l.Acquire(st, now, Ask{Need: 1, Waiting: 1, Want: 1})
	}
	if cap(st.Log) > 1_000 {
		t.Errorf("60 live entries keep room for %d", cap(st.Log))
	}
}
