package enginetest

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// answersAsOneCounter plays random wants and compares every answer with that of
// the state machine, to the last unit. The clock is that of the test, but Redis forgets a key by its own: a second after
// its window, which in windows of an hour is seldom near.
func answersAsOneCounter(t *testing.T, s Subject) {
	specs := []limit.Spec{
		bucket(10, limit.Hour), bucket(3_000_000, limit.Hour), bucket(1, limit.Day),
		{Algorithm: limit.TokenBucket, Count: 100, Period: limit.Hour, Burst: 7, ChargeRejected: true},
		fixed(10, limit.Hour), fixed(1_000_000, limit.Day), fixed(3_000_000, limit.Hour),
		{Algorithm: limit.FixedWindow, Count: 20, Period: limit.Hour, Align: limit.AlignFirstRequest},
		{Algorithm: limit.FixedWindow, Count: 20, Period: limit.Hour, ChargeRejected: true},
		perCalendar(t, 20, limit.Calendar{Per: limit.PerDay, Zone: "Europe/Berlin"}), perCalendar(t, 20, limit.Calendar{Per: limit.PerMonth, Anchor: 31, Zone: "UTC"}),
		sliding(50, limit.Hour), sliding(1, limit.Day),
		logged(50, limit.Hour),
		{Algorithm: limit.SlidingLog, Count: 5, Period: limit.Hour, MinInterval: 3 * limit.Minute},
	}
	random := rand.New(rand.NewPCG(1, 2))
	c, store := s.empty(t)
	for i, spec := range specs {
		p := named(t, "r", uint64(i), spec)
		twins := map[string]*granter.Counter{"a": {}, "b": {}}
		leases := map[string]uint32{}
		for step := range 600 {
			// A store that doubts charges denials up to a part of the limit in a period, which a rush would pass.
			if s.Doubts || random.IntN(4) > 0 { // else in the same microsecond
				c.advance(limit.Micros(random.Int64N(int64(spec.Period)/20 + 2)))
			}
			key := []string{"a", "b"}[random.IntN(2)]
			w := randomWant(random, spec.Count, leases[key])
			if s.Doubts {
				if w.Overdrawn, w.Denied = 0, 0; spec.Algorithm == limit.SlidingLog {
					w.Unused = 0
				}
			}
			got := acquire(t, store, p, key, w)
			want := twins[key].Acquire(p.Limit, &p.Terms, c.now(), w)
			if got != want {
				t.Fatalf("%+v: step %d, %s %+v:\n got %+v\nwant %+v", spec, step, key, w, got, want)
			}
			if got.Granted > 0 {
				leases[key] = got.Lease
			}
		}
	}
}

// perCalendar is a limit by windows of a calendar.
func perCalendar(t testing.TB, count int64, c limit.Calendar) limit.Spec {
	t.Helper()
	c.Windows = fatal.Get(calendar.Windows(c))(t)
	return limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: c.Per.Period(), Calendar: &c}
}

// randomWant is a want as a holder of a key with so much to give may have it.
func randomWant(random *rand.Rand, count int64, leased uint32) lease.Want {
	w := lease.Want{Fresh: random.IntN(3) == 0}
	if random.IntN(8) > 0 {
		w.Need = random.Int64N(2)
		w.Waiting = w.Need + random.Int64N(2)*w.Need
		w.Want = w.Waiting + random.Int64N(count/2+2)
	}
	if random.IntN(4) == 0 {
		w.Unused, w.Lease = random.Int64N(count/4+2), leased
	}
	if random.IntN(12) == 0 {
		w.Overdrawn = random.Int64N(3)
	}
	if random.IntN(12) == 0 {
		w.Denied = random.Int64N(4)
	}
	if random.IntN(60) == 0 { // the most that a want may state
		w.Denied, w.Overdrawn = limit.MaxCount*random.Int64N(2), limit.MaxCount*random.Int64N(2)
	}
	w.Next = w.Need == 0 && random.IntN(4) == 0
	w.Fresh = w.Fresh && w.Want > 0 // a report is no ask
	return w
}

// countersAreApart asks for counters whose names differ in one thing each: each has its own limit.
func countersAreApart(t *testing.T, s Subject) {
	_, store := s.empty(t)
	spec := fixed(3, limit.Hour)
	base := named(t, "r", 0, spec, exact)
	names := []struct {
		policy *engine.Policy
		key    string
	}{
		{base, ""}, {base, "a"}, {base, "b"}, {base, "a|b"}, {base, `a\|b`}, {base, "ab|"}, {base, "a\x00"}, {base, "\xff\xfe"},
		{named(t, "r", 1, fixed(5, limit.Hour), exact), "a"},
		{named(t, "r2", 0, fixed(2, limit.Hour), exact), "a"},
		{named(t, "r", 0, fixed(3, 2*limit.Hour), exact), "a"},
		{named(t, "r", 0, sliding(3, limit.Hour), exact), "a"},
		{named(t, "ra", 0, spec, exact), ""},
	}
	for i, n := range names {
		leaves(t, store, n.policy, n.key, n.policy.Terms.Capacity, "name %d, which shares no counter", i)
	}
}

// countsOfRequests judges one counter by the count of its rule and by those that requests
// bring: each is rejected by its own alone, and none changes the answers to the others.
func countsOfRequests(t *testing.T, s Subject) {
	for _, terms := range []func(*lease.Terms){exact, func(*lease.Terms) {}} {
		_, store, rule := s.begin(t, fixed(12, limit.Hour), terms)
		by := func(count int64) *engine.Policy {
			p := policyOf(t, fixed(count, limit.Hour), terms)
			p.Brought = true
			return p
		}
		used := int64(0)
		for i, p := range []*engine.Policy{by(2), by(2), by(2), by(5), rule, by(3), rule, by(5), by(5), rule, by(20), rule, by(7), rule, by(20)} {
			if g := acquire(t, store, p, "k", lease.Want{}); g.Remaining != max(0, p.Terms.Capacity-used) {
				t.Errorf("step %d: %d used of %d, answer %+v", i+1, used, p.Terms.Capacity, g)
			}
			granted := int64(0)
			if used < p.Terms.Capacity {
				granted = 1
			}
			if g := acquire(t, store, p, "k", one(1)); g.Granted != granted {
				t.Errorf("step %d: %d used of %d: %+v", i+1, used, p.Terms.Capacity, g)
			}
			used += granted
		}
	}
}

// keysAreCopied writes over the memory of a key.
func keysAreCopied(t *testing.T, s Subject) {
	_, store, p := s.begin(t, fixed(1, limit.Hour), exact)
	key := []byte("first")
	acquireAll(t, store, engine.Ask{Policy: p, Key: key, Want: one(1)})
	copy(key, "other")
	rejected(t, acquire(t, store, p, "first", one(1)), "the first key was forgotten")
	if g := acquire(t, store, p, "other", one(1)); g.Status != lease.OK {
		t.Errorf("the second key was never asked for: %+v", g)
	}
}

// giveBack returns more than was ever granted, of the lease that is out and of others, and then what was granted, again
// and again: what is out comes back once.
func giveBack(t *testing.T, s Subject) {
	everyAlgorithm(t, 1000, limit.Hour, func(t *testing.T, spec limit.Spec) {
		c, store, p := s.begin(t, spec)
		g := acquire(t, store, p, "k", lease.Want{Need: 20, Waiting: 20, Want: 20, Fresh: true})
		for i := range uint32(5) {
			for _, unused := range []int64{1<<32 - 1, 1 << 31, 2001} {
				if g := acquire(t, store, p, "k", lease.Want{Unused: unused, Lease: g.Lease + i}); g.Remaining > 980 {
					t.Fatalf("of 980 units %d are left after %d came back", g.Remaining, unused)
				}
			}
		}
		for range 3 {
			acquire(t, store, p, "k", lease.Want{Unused: g.Granted, Lease: g.Lease})
		}
		if got := drainAll(t, s, c, store, p, "k"); got > 1000 || got < s.least(1000) {
			t.Errorf("%d units after everything came back, want 1000", got)
		}
	})
}

// debtIsChargedOnce repeats debts: one that has a name is charged once,
// alone, beside a want and in a group; others of the same counter and the same name at
// another counter are debts of their own.
func debtIsChargedOnce(t *testing.T, s Subject) {
	count := int64(100)
	if s.Doubts {
		count = 1000
	}
	everyAlgorithm(t, count, limit.Hour, func(t *testing.T, spec limit.Spec) {
		c, store := s.empty(t)
		p, other := policyOf(t, spec, exact), named(t, "other", 0, spec, exact)
		owing := func(w lease.Want, units int64, debt uint64) lease.Want {
			w.Overdrawn, w.Debt = units, debt
			return w
		}
		for range 5 {
			c.advance(100 * limit.Millisecond)
			if g := acquire(t, store, p, "k", owing(one(1), 30, 7)); g.Granted != 1 || g.StillOwed {
				t.Fatalf("beside a debt of 30: %+v, want a unit and no debt", g)
			}
			if g := acquire(t, store, p, "k", owing(lease.Want{}, 10, 8)); g.Status == lease.Unavailable || g.StillOwed {
				t.Fatalf("a debt alone: %+v, want that it is taken", g)
			}
			acquireAll(t, store,
				engine.Ask{Policy: p, Key: []byte("k"), Group: 1, Want: owing(one(1), 5, 9)},
				engine.Ask{Policy: other, Key: []byte("k"), Group: 1, Want: owing(one(1), 50, 7)})
		}
		acquire(t, store, p, "k", owing(lease.Want{}, 5, 0))
		acquire(t, store, p, "k", owing(lease.Want{}, 5, 0))
		leaves(t, store, p, "k", count-65, "after debts of 30, 10, 5, twice 5 and ten requests")
		leaves(t, store, other, "k", count-55, "after a debt of 50 and five requests")
	})
}

// exactKeepsNothing: for an exact rule units are only ever granted to
// requests that wait for them.
func exactKeepsNothing(t *testing.T, s Subject) {
	_, store, p := s.begin(t, sliding(50, limit.Minute), exact)
	for i := range int64(50) {
		g := acquire(t, store, p, "k", one(1))
		if g.Granted != 1 || g.Remaining != 49-i {
			t.Fatalf("request %d: %+v, want 1 granted and %d remaining", i, g, 49-i)
		}
	}
	if s.Asked != nil && s.Asked(store) < 50 {
		t.Errorf("50 requests were admitted one after the other for %d asks", s.Asked(store))
	}
	if g := acquire(t, store, p, "k", one(1)); g.Status != lease.Denied || g.RetryAfter <= 0 || g.AskAfter <= 0 {
		t.Errorf("request 51: %+v, want a denial with times", g)
	}
}
