package granter

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

var perMinute = limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Minute}

// window is the granter's clock at the beginning of a minute.
const window = 30_000_000 * limit.Minute

// counter drives one counter through a trace.
type counter struct {
	t     *testing.T
	limit *limit.Limit
	terms lease.Terms
	Counter
}

func newCounter(t *testing.T, s limit.Spec, c lease.Consistency) *counter {
	l := fatal.Get(limit.New(s))(t)
	return &counter{t: t, limit: l, terms: lease.NewTerms(l, c, 0, 0, 0)}
}

// acquire asks so long after the beginning of the window.
func (c *counter) acquire(after limit.Micros, w lease.Want) lease.Grant {
	return c.Counter.Acquire(c.limit, &c.terms, window+after, w)
}

// gets asks, and checks what is granted and how much is left.
func (c *counter) gets(after limit.Micros, w lease.Want, granted, left int64) lease.Grant {
	c.t.Helper()
	g := c.acquire(after, w)
	if g.Granted != granted || g.Remaining != left {
		c.t.Fatalf("after %d ms %+v got %d and left %d, not %d and %d", after/limit.Millisecond, w, g.Granted, g.Remaining, granted, left)
	}
	if (g.Granted == 0 && w.Want > 0) != (g.Status == lease.Denied) {
		c.t.Fatalf("granted %d with status %d", g.Granted, g.Status)
	}
	return g
}

func TestCounterSharesAmongAskers(t *testing.T) {
	c := newCounter(t, perMinute, lease.Leased)
	ahead := lease.Want{Want: 1000, Fresh: true}
	c.gets(0, ahead, 500, 500) // one asker: half
	c.gets(0, ahead, 125, 375) // two: a quarter
	c.gets(0, ahead, 62, 313)  // three: a sixth
	ahead.Fresh = false
	c.gets(10*limit.Millisecond, ahead, 52, 261)
	ahead.Fresh = true
	c.gets(100*limit.Millisecond, ahead, 32, 229) // and one, with the three of the interval before
	ahead.Fresh = false
	c.gets(300*limit.Millisecond, ahead, 114, 115) // of whom one is left, half forgotten
}

// TestBucketLeaseEndsBeforeItsRefill holds leases to the time in which a bucket
// fills: else more than a burst could be out.
func TestBucketLeaseEndsBeforeItsRefill(t *testing.T) {
	for _, row := range []struct {
		spec limit.Spec
		ttl  lease.Millis
	}{
		{limit.Spec{Count: 1000, Period: limit.Minute}, 10_000},
		{limit.Spec{Count: 1000, Period: limit.Minute, Burst: 50}, 3000},
		{limit.Spec{Count: 1000, Period: limit.Second}, 1000},
		{limit.Spec{Count: 1000, Period: limit.Second, Burst: 150}, 1000}, // never below 1 s
		{limit.Spec{Count: 1, Period: 366 * limit.Day, Burst: 100}, 10_000},
	} {
		c := newCounter(t, row.spec, lease.Leased)
		if g := c.acquire(0, lease.Want{Want: 1}); g.TTL != row.ttl {
			t.Errorf("%+v: ttl %d ms, not %d", row.spec, g.TTL, row.ttl)
		}
	}
}

func TestCounterForgetsOldLeases(t *testing.T) {
	c := newCounter(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Day}, lease.Leased)
	g := c.acquire(0, lease.Want{Want: 10, Fresh: true})
	c.gets(10*limit.Second+LeaseMemory, lease.Want{Unused: 10, Lease: g.Lease}, 0, 90)
}

func TestAskAfter(t *testing.T) {
	for _, row := range []struct {
		name   string
		asked  int        // holders, in this interval
		before lease.Want // asked at 0
		at     limit.Micros
		w      lease.Want
		want   lease.Millis
	}{
		{"an interval while others may hold units", 3, lease.Want{Want: 160}, 0, lease.Want{Need: 900, Waiting: 900, Want: 900}, 100},
		{"0.8 s where only the asker does", 2, lease.Want{Want: 160}, 0, lease.Want{Need: 900, Waiting: 900, Want: 900}, 800},
		{"to fetch the next window", 1, lease.Want{Need: 1000, Waiting: 1000, Want: 1000}, limit.Minute - 500*limit.Millisecond, lease.Want{Want: 1}, 300},
	} {
		c := newCounter(t, perMinute, lease.Leased)
		for range row.asked {
			c.acquire(0, lease.Want{Fresh: true})
		}
		c.acquire(0, row.before)
		g := c.acquire(row.at, row.w)
		if g.Status != lease.Denied || g.AskAfter != row.want || g.RetryAfter < 1 && g.Remaining < max(row.w.Need, 1) {
			t.Errorf("%s: %+v, want a denial, to ask after %d ms, and to come back if nothing is left", row.name, g, row.want)
		}
	}
}

func TestCounterAnswersFromTheRunningWindowWhenTheNextIsSpokenFor(t *testing.T) {
	c := newCounter(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 2, Period: limit.Minute}, lease.Leased)
	next := lease.Want{Want: 2, Next: true}
	if g := c.acquire(limit.Minute-limit.Millisecond, next); g.StartsIn == 0 {
		t.Fatalf("%+v", g)
	}
	if g := c.acquire(limit.Minute-limit.Millisecond, next); g.StartsIn != 0 || g.Granted != 1 {
		t.Errorf("%+v", g)
	}
}

// At the end of a window leases of both are granted and come back. What is out of the next is remembered, and no more comes back.
func TestLeasesOfTheWindowThatEndsLeaveThoseOfTheNext(t *testing.T) {
	c := newCounter(t, perMinute, lease.Leased)
	one, end := lease.Want{Need: 1, Waiting: 1, Want: 1}, limit.Minute-limit.Millisecond
	old := c.gets(end, lease.Want{Need: 150, Waiting: 150, Want: 150}, 150, 850)
	next := c.acquire(end, lease.Want{Want: 100, Next: true})
	c.gets(end, one, 1, 849)
	c.gets(end, lease.Want{Unused: 150, Lease: old.Lease}, 0, 999)
	c.gets(limit.Minute, one, 1, 899)
	c.gets(limit.Minute, lease.Want{Overdrawn: 300}, 0, 599)
	c.gets(limit.Minute, lease.Want{Unused: 400, Lease: next.Lease}, 0, 599+100+2)
}

// A denial begins a block only if nothing that is reserved could come back. What counts is reserved no longer.
func TestCounterBlocks(t *testing.T) {
	spec := perMinute
	spec.Count, spec.Block, spec.Reserves = 2, 10*limit.Minute, true
	c := newCounter(t, spec, lease.Exact)
	two, one := lease.Want{Need: 2, Waiting: 2, Want: 2}, lease.Want{Need: 1, Waiting: 1, Want: 1}
	g := c.gets(0, two, 2, 0)
	for settled := range int64(3) {
		c.acquire(0, lease.Want{Settled: min(settled, 1), Lease: g.Lease})
		if d := c.acquire(0, one); (d.Block > 0) != (settled == 2) || d.Status != lease.Denied {
			t.Fatalf("%d settled: %+v", settled, d)
		}
	}
	if look := c.Look(c.limit, &c.terms, window); look.Block == 0 || look.RetryAfter != 600_000 {
		t.Errorf("a blocked key: %+v", look)
	}
	if look := c.Reset(c.limit, &c.terms, window); look.Block != 0 || look.RetryAfter != 0 {
		t.Errorf("a key that is reset: %+v", look)
	}
}

// Requests that a holder rejected from memory count too where denials are charged.
func TestDeniedFromMemoryIsCharged(t *testing.T) {
	for charges, left := range map[bool]int64{false: 10, true: 6} {
		c := newCounter(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Minute, ChargeRejected: charges}, lease.Leased)
		c.gets(0, lease.Want{Denied: 4}, 0, left)
	}
}

// A look changes nothing. A reset counter is a new one that knows what is out on lease. A need fits if as much is left, and
// costs nothing before it is asked for.
func TestCounterLooksResetsAndFits(t *testing.T) {
	c := newCounter(t, perMinute, lease.Leased)
	is := func(g lease.Grant, granted, left int64, ttl lease.Millis) {
		t.Helper()
		if g.Granted != granted || g.Remaining != left || g.TTL != ttl {
			t.Errorf("%+v, want %d on lease for %d ms and %d left", g, granted, ttl, left)
		}
	}
	first := c.gets(0, lease.Want{Want: 100, Fresh: true}, 100, 900)
	is(c.Look(c.limit, &c.terms, window+limit.Second), 100, 900, 9000)
	is(c.Reset(c.limit, &c.terms, window+limit.Second), 100, 1000, 9000)
	c.gets(limit.Second, lease.Want{Need: 50, Waiting: 50, Want: 50}, 50, 950)
	c.gets(2*limit.Second, lease.Want{Unused: 100, Lease: first.Lease}, 0, 1000)
	is(c.Look(c.limit, &c.terms, window+10*limit.Second), 0, 1000, 0)
	for _, need := range []int64{1000, 1001} {
		g, fits := c.Fit(c.limit, &c.terms, window+11*limit.Second, lease.Want{Need: need, Waiting: need, Want: need})
		if fits != (need == 1000) || (g.Status == lease.Denied) == fits {
			t.Errorf("a need of %d fits: %v, %+v", need, fits, g)
		}
		is(g, 0, 1000, 0)
	}
}

// What is out on lease is what was handed out in this window and may come back: units of requests that wait are spent at once.
func TestCounterKnowsWhatIsOut(t *testing.T) {
	c := newCounter(t, perMinute, lease.Leased)
	look := func(after limit.Micros, granted int64) {
		t.Helper()
		if g := c.Look(c.limit, &c.terms, window+after); g.Granted != granted || (g.TTL > 0) != (granted > 0) {
			t.Errorf("%d units are out for %d ms, want %d", g.Granted, g.TTL, granted)
		}
	}
	c.gets(0, lease.Want{Need: 1, Waiting: 600, Soon: 200, Want: 800, Fresh: true}, 800, 200) // more than half, as they wait
	look(0, 0)
	first := c.gets(0, lease.Want{Want: 10}, 10, 190)
	c.gets(limit.Second, lease.Want{Want: 10}, 10, 180)
	look(limit.Second, 820)
	c.gets(limit.Second, lease.Want{Unused: 815, Lease: first.Lease}, 0, 995)
	c.gets(limit.Second, lease.Want{Unused: 20, Lease: first.Lease}, 0, 1000)
	look(limit.Second, 0)

	c.gets(2*limit.Second, lease.Want{Want: 100}, 100, 900)
	c.gets(limit.Minute, lease.Want{Overdrawn: 300}, 0, 700)
	next := c.gets(limit.Minute, lease.Want{Want: 10}, 10, 690)
	c.gets(limit.Minute, lease.Want{Unused: 50, Lease: next.Lease}, 0, 700) // of the window before nothing comes back
}

// A holder that has taken the last unit is told when there are more, and one that has not is told nothing.
func TestCounterTellsWhenItIsEmpty(t *testing.T) {
	c := newCounter(t, perMinute, lease.Leased)
	for _, row := range []struct {
		w     lease.Want
		left  int64
		retry lease.Millis
	}{
		{lease.Want{Need: 900, Waiting: 900, Want: 900}, 100, 0},
		{lease.Want{Need: 100, Waiting: 100, Want: 100}, 0, 200},
		{lease.Want{Want: 10, Next: true}, 0, 0},
	} {
		if g := c.gets(limit.Minute-200*limit.Millisecond, row.w, row.w.Want, row.left); g.RetryAfter != row.retry {
			t.Errorf("%+v: retry after %d ms, want %d", row.w, g.RetryAfter, row.retry)
		}
	}
}

// TestCounterNeverOverGrants sends any wants to a counter and adds up what it
// granted to each window, less what came back: never more than the limit, and no
// more comes back than was out.
func TestCounterNeverOverGrants(t *testing.T) {
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 50, Period: limit.Second}))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	rapid.Check(t, func(t *rapid.T) {
		var c Counter
		out := map[uint32]int64{} // granted to a window
		upTo := func(n int64) int64 { return rapid.Int64Range(0, max(n, 0)).Draw(t, "n") }
		now := limit.Micros(window)
		for range 60 {
			now += limit.Micros(upTo(150)) * limit.Millisecond
			w := lease.Want{Need: upTo(10), Fresh: upTo(1) == 1, Next: upTo(2) == 0}
			w.Waiting = w.Need + upTo(10)*min(w.Need, 1)
			w.Want = w.Waiting + upTo(30)
			w.Unused, w.Lease = upTo(5)*upTo(1), l.PeriodID(now-now%limit.Second)
			before := c.Look(l, &terms, now).Remaining
			c.Fit(l, &terms, now, w)
			returned := c.Look(l, &terms, now).Remaining - before
			if returned < 0 || returned > w.Unused {
				t.Fatalf("%d returned of %d", returned, w.Unused)
			}
			out[w.Lease] -= returned
			w.Unused, w.Fresh = 0, false
			g := c.Acquire(l, &terms, now, w)
			out[g.Lease] += g.Granted
			if g.Granted > 0 && (g.Granted < w.Need || g.Granted > w.Want) {
				t.Fatalf("granted %d to %+v", g.Granted, w)
			}
			if out[g.Lease] > 50 && g.Granted > 0 {
				t.Fatalf("%d out of 50", out[g.Lease])
			}
			if g.Status == lease.Denied && (g.AskAfter < 1 || g.AskAfter > 1000) {
				t.Fatalf("ask after %d", g.AskAfter)
			}
			if c.Leased < 0 || c.Leased > 100 {
				t.Fatalf("%+v", c)
			}
		}
	})
}
