package limit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

const ms = Millisecond

func TestTokenBucketTraces(t *testing.T) {
	perSecond := Spec{Count: 10, Period: Second} // a token per 100 ms
	for name, c := range map[string]struct {
		spec Spec
		rows []row
	}{
		"a new bucket is full, then a token each 100 ms": {perSecond, []row{
			{0, need(10), 10, 0, 0, Second},
			{0, need(1), 0, 0, 100 * ms, Second},
			{100*ms - 1, need(1), 0, 0, 1, 900*ms + 1},
			{100 * ms, need(1), 1, 0, 0, Second},
			{399 * ms, need(1), 1, 1, 0, 801 * ms},
		}},
		"idle for a year, it holds no more than its burst": {perSecond, []row{
			{0, need(10), 10, 0, 0, Second},
			{365 * Day, need(11), 0, 10, Never, 0},
			{365 * Day, need(10), 10, 0, 0, Second},
		}},
		"burst is the capacity, count the rate": {Spec{Count: 10, Period: Second, Burst: 3}, []row{
			{0, need(4), 0, 3, Never, 0},
			{0, need(3), 3, 0, 0, 300 * ms},
			{250 * ms, need(3), 0, 2, 50 * ms, 50 * ms},
			{300 * ms, need(3), 3, 0, 0, 300 * ms},
		}},
		"a burst above the count": {Spec{Count: 1, Period: Second, Burst: 5}, []row{
			{0, need(5), 5, 0, 0, 5 * Second},
			{1500 * ms, need(2), 0, 1, 500 * ms, 3500 * ms},
		}},
		"all that remains is shared: it refills": {perSecond, []row{
			{0, ask(Ask{Need: 1, Waiting: 2, Want: 8, Askers: 100}), 8, 2, 0, 800 * ms},
			{0, ask(Ask{Need: 1, Waiting: 2, Want: 8}), 2, 0, 0, Second},
			{0, ask(Ask{Want: 8}), 0, 0, 0, Second},
		}},
		"cost 0 is a report": {perSecond, []row{
			{0, need(0), 0, 10, 0, 0},
			{0, need(4), 4, 6, 0, 400 * ms},
			{0, need(0), 0, 6, 0, 400 * ms},
			{0, overdrawn(12), 0, 0, 0, 1600 * ms},
			{0, need(0), 0, 0, 0, 1600 * ms},
		}},
		"given back, up to a full bucket": {perSecond, []row{
			{0, need(8), 8, 2, 0, 800 * ms},
			{0, back(3), 3, 5, 0, 500 * ms},
			{400 * ms, back(5), 1, 10, 0, 0},
		}},
		"overdrawn, down to one bucket of debt": {perSecond, []row{
			{0, overdrawn(15), 0, 0, 0, 1500 * ms},
			{0, need(1), 0, 0, 600 * ms, 1500 * ms},
			{0, overdrawn(15), 0, 0, 0, 2 * Second},
			{1100 * ms, need(1), 1, 0, 0, Second},
		}},
		"a denied need is charged as a penalty": {Spec{Count: 10, Period: Second, ChargeDenied: true}, []row{
			{0, need(9), 9, 1, 0, 900 * ms},
			{0, need(2), 0, 0, 300 * ms, 1100 * ms},
			{0, need(11), 0, 0, Never, 2 * Second},
		}},
		"count 0 denies everything": {Spec{Period: Second}, []row{
			{0, need(1), 0, 0, Never, 0},
			{Day, need(1), 0, 0, Never, 0},
			{Day, need(0), 0, 0, 0, 0},
			{Day, overdrawn(5), 0, 0, 0, 0},
		}},
		"the clock steps back 1 ms, 10 s, an hour; and an hour forward": {perSecond, []row{
			{0, need(10), 10, 0, 0, Second},
			{-ms, need(1), 0, 0, 101 * ms, 1001 * ms},
			{100 * ms, need(1), 1, 0, 0, Second},
			{-10 * Second, need(1), 0, 0, 100 * ms, Second}, // ahead by more than a period: now counts
			{-10*Second + 100*ms, need(1), 1, 0, 0, Second},
			{-Hour, need(1), 0, 0, 100 * ms, Second},
			{Hour, need(10), 10, 0, 0, Second},
			{0, need(1), 0, 0, 100 * ms, Second},
		}},
		"3,000,000 a second: three tokens a microsecond": {Spec{Count: 3_000_000, Period: Second, Burst: 3}, []row{
			{0, need(3), 3, 0, 0, 1},
			{0, need(1), 0, 0, 1, 1},
			{1, need(3), 3, 0, 0, 1},
		}},
		"one a day": {Spec{Count: 1, Period: Day}, []row{
			{0, need(1), 1, 0, 0, Day},
			{Day - 1, need(1), 0, 0, 1, 1},
			{Day, need(1), 1, 0, 0, Day},
		}},
		"1,000,000 a day: a token per 86.4 ms, exact in microseconds": {Spec{Count: 1_000_000, Period: Day}, []row{
			{0, need(1_000_000), 1_000_000, 0, 0, Day},
			{0, need(1), 0, 0, 86_400, Day},
			{86_399, need(1), 0, 0, 1, Day - 86_399},
			{86_400, need(1), 1, 0, 0, Day},
		}},
		"999,983 a day, a prime: in milliseconds, and their rest is not lost": {Spec{Count: 999_983, Period: Day}, []row{
			{0, need(999_983), 999_983, 0, 0, Day},
			{500, need(1), 0, 0, 87*ms - 500, Day - 500}, // 86.4015 ms, in whole ms
			{86*ms + 999, need(1), 0, 0, 1, Day - 86*ms - 999},
			{87 * ms, need(1), 1, 0, 0, Day},  // 0.6 ms of the next token are there
			{173 * ms, need(1), 1, 0, 0, Day}, // and make it come after 86 ms
			{173*ms + 1, need(1), 0, 0, 87*ms - 1, Day - 1},
		}},
		"a wait of more than 142 years is never": {Spec{Count: 1, Period: Day, Burst: 1_000_000}, []row{
			{0, need(1_000_000), 1_000_000, 0, 0, Never},
			{0, need(52_124), 0, 0, 52_124 * Day, Never},
			{0, need(52_125), 0, 0, Never, Never},
		}},
	} {
		t.Run(name, func(t *testing.T) { runTrace(t, c.spec, c.rows) })
	}
}

// After a change of count or burst a bucket goes on with the whole tokens that it
// had, cut at the new burst.
func TestTokenBucketRescale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawLimit(t, TokenBucket)
		s := before.Spec()
		s.Count = rapid.SampledFrom(counts[1:]).Draw(t, "new count")
		s.Burst = rapid.SampledFrom(counts[1:]).Draw(t, "new burst")
		after, err := New(s)
		if err != nil {
			t.Skip(err)
		}
		if before.Shape() != after.Shape() {
			t.Fatal("count and burst entered the shape")
		}
		var st State
		st = before.Charge(st, epoch, rapid.Int64Range(0, 2*before.capacity).Draw(t, "charged"))
		now := epoch + Micros(rapid.Int64Range(0, int64(s.Period)).Draw(t, "after"))
		st, _ = before.Acquire(st, now, Ask{})
		if level := after.bucket.rescale(st.Level, st.Aux); level < -after.bucket.cap || level > after.bucket.cap {
			t.Fatalf("a level of %d in a bucket of %d", level, after.bucket.cap)
		}
		had := floor(big.NewRat(st.Level, before.bucket.cost))
		st, _ = after.Acquire(st, st.At, Ask{}) // what came in since is credited at the new rate
		if before.bucket.cost != after.bucket.cost {
			if want := max(-s.Burst, min(had, s.Burst)) * after.bucket.cost; st.Level != want {
				t.Fatalf("%d tokens became a level of %d, want %d", had, st.Level, want)
			}
		}
		checkState(t, 0, after, st)
	})
}
