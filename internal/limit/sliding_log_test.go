package limit

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSlidingLogTraces(t *testing.T) {
	three := Spec{Algorithm: SlidingLog, Count: 3, Period: Second}
	ten := Spec{Algorithm: SlidingLog, Count: 10, Period: Second}
	for name, c := range map[string]struct {
		spec Spec
		rows []row
	}{
		"each charge counts for exactly one period": {three, []row{
			{0, need(1), 1, 2, 0, Second},
			{400 * ms, need(2), 2, 0, 0, Second},
			{400 * ms, need(1), 0, 0, 600 * ms, Second},
			{Second - 1, need(1), 0, 0, 1, 400*ms + 1},
			{Second, need(1), 1, 0, 0, Second},
			{Second, need(2), 0, 0, 400 * ms, Second},
			{Second, need(3), 0, 0, Second, Second},
			{1400 * ms, need(2), 2, 0, 0, Second},
		}},
		"two in one microsecond are two": {three, []row{
			{0, need(1), 1, 2, 0, Second},
			{0, need(1), 1, 1, 0, Second},
			{0, need(1), 1, 0, 0, Second},
			{0, need(1), 0, 0, Second, Second},
		}},
		"what is granted ahead is charged where its lease ends": {ten, []row{
			{0, ask(Ask{Need: 1, Waiting: 1, Want: 10, Askers: 1}), 5, 5, 0, 1020 * ms}, // ttl: a fiftieth of the period
			{10 * ms, need(5), 5, 0, 0, 1010 * ms},                                      // before it, though later
			{10 * ms, need(1), 0, 0, Second, 1010 * ms},
			{1010 * ms, need(5), 5, 0, 0, Second},
			{1010 * ms, need(1), 0, 0, 10 * ms, Second},
			{1020 * ms, need(5), 5, 0, 0, Second},
		}},
		"what waits is charged now": {ten, []row{
			{0, ask(Ask{Need: 1, Waiting: 8, Want: 9, Askers: 1}), 8, 2, 0, Second},
		}},
		"a least interval: one need at a time, never ahead": {Spec{Algorithm: SlidingLog, Count: 3, Period: Second, MinInterval: 100 * ms}, []row{
			{0, ask(Ask{Want: 3}), 0, 3, 0, 0},
			{0, ask(Ask{Need: 1, Waiting: 3, Want: 3}), 1, 0, 0, Second},
			{100*ms - 1, need(1), 0, 0, 1, 900*ms + 1},
			{100 * ms, need(2), 2, 0, 0, Second},
			{100 * ms, need(1), 0, 0, 900 * ms, Second}, // the limit binds longer than the interval
			{Second, need(1), 1, 0, 0, Second},
			{1050 * ms, need(1), 0, 0, 50 * ms, 950 * ms}, // the interval longer than the limit
			{1050 * ms, back(1), 1, 1, 0, 50 * ms},        // it was not used after all
		}},
		"cost 0 and more than ever fits": {three, []row{
			{0, need(0), 0, 3, 0, 0},
			{0, need(4), 0, 3, Never, 0},
		}},
		"given back": {ten, []row{
			{0, need(4), 4, 6, 0, Second},
			{500 * ms, need(4), 4, 2, 0, Second},
			{600 * ms, back(3), 3, 5, 0, 900 * ms},
			{600 * ms, back(3), 1, 6, 0, 400 * ms},
			{600 * ms, back(3), 0, 6, 0, 400 * ms},
		}},
		"given back too late": {ten, []row{
			{0, need(4), 4, 6, 0, Second},
			{Second, back(4), 0, 10, 0, 0},
		}},
		"overdrawn, up to one limit of debt": {three, []row{
			{0, need(1), 1, 2, 0, Second},
			{100 * ms, overdrawn(30), 0, 0, 0, Second},
			{200 * ms, overdrawn(30), 0, 0, 0, 900 * ms},
			{Second, need(1), 0, 0, 100 * ms, 100 * ms},
			{1100 * ms, need(3), 3, 0, 0, Second},
		}},
		"a denied need is charged as a penalty": {Spec{Algorithm: SlidingLog, Count: 3, Period: Second, ChargeDenied: true}, []row{
			{0, need(2), 2, 1, 0, Second},
			{100 * ms, need(2), 0, 0, Second, Second},
			{200 * ms, need(1), 0, 0, 900 * ms, Second},
			{300 * ms, need(5), 0, 0, Never, Second}, // adds one only: 6 in all
			{Second, need(3), 0, 0, Second, Second},  // two expired, so two more are added
			{2 * Second, need(3), 3, 0, 0, Second},
		}},
		"count 0 denies everything": {Spec{Algorithm: SlidingLog, Period: Second}, []row{
			{0, need(1), 0, 0, Never, 0},
			{0, overdrawn(1), 0, 0, 0, 0},
		}},
		"the clock steps back 1 ms, 10 s, an hour; and an hour forward": {three, []row{
			{0, need(2), 2, 1, 0, Second},
			{-ms, need(1), 1, 0, 0, 1001 * ms},
			{-ms, need(1), 0, 0, 1001 * ms, 1001 * ms},
			{-10 * Second, need(1), 0, 0, Second, Second},
			{-9 * Second, need(3), 3, 0, 0, Second},
			{-Hour, need(1), 0, 0, Second, Second},
			{Hour, need(3), 3, 0, 0, Second},
			{0, need(1), 0, 0, Second, Second},
		}},
		"a lease that is out stays ahead when the clock was wrong": {ten, []row{
			{0, ask(Ask{Want: 10}), 5, 5, 0, 1020 * ms},
			{-10 * Second, need(6), 0, 5, 1020 * ms, 1020 * ms},
		}},
		"idle for a year": {three, []row{
			{0, need(3), 3, 0, 0, Second},
			{365 * Day, need(3), 3, 0, 0, Second},
		}},
	} {
		t.Run(name, func(t *testing.T) { runTrace(t, c.spec, c.rows) })
	}
}

// Long traces at one pace, so that much expires and its memory is used again.
func TestSlidingLogReclaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := New(Spec{Algorithm: SlidingLog, Count: rapid.Int64Range(1, 300).Draw(t, "count"), Period: Second})
		if err != nil {
			t.Fatal(err)
		}
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

// The wire carries only the millisecond of an entry. What comes back is taken
// from the oldest of that millisecond, so what stays counts no less than it
// should at any later time.
func TestSlidingLogReturnByMillisecond(t *testing.T) {
	l := mustNew(t, Spec{Algorithm: SlidingLog, Count: 10, Period: Second})
	var st State
	for i := range Micros(3) {
		st, _ = l.Acquire(st, epoch+100*i, Ask{Need: 2, Waiting: 2, Want: 2})
	}
	id := l.PeriodID(epoch + 200)
	st, got := l.Return(st, epoch+300, l.PeriodFromID(epoch+300, id), 3)
	if got != 3 {
		t.Fatalf("gave back %d of 3", got)
	}
	for i, left := range []int64{7, 7, 8, 10} { // of entries of 0, 1 and 2 units
		if p := l.Peek(st, epoch+Second+100*Micros(i)-1, 0); p.Remaining != left {
			t.Errorf("just before entry %d is over, %d remain, want %d", i, p.Remaining, left)
		}
	}
}
