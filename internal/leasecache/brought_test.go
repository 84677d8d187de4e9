package leasecache_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// bringing is a policy of the same counters whose count came with a request.
func bringing(t testing.TB, of *engine.Policy, count int64) *engine.Policy {
	t.Helper()
	spec := of.Limit.Spec()
	spec.Count = count
	p := ruled(t, of.Rule, spec, of.Terms.Consistency)
	p.Brought = true
	return p
}

// Requests of one key bring different limits at the same time. Each is answered, and none is admitted
// beyond its own limit. What was admitted is charged, and the rule's own limit can be used up.
func TestCountsAtTheSameTime(t *testing.T) {
	for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
		for _, grouped := range []bool{false, true} {
			onSite(t, 1, func(t *testing.T, s *site) {
				p := ruled(t, "hour", limit.Spec{Algorithm: limit.FixedWindow, Count: 2000, Period: limit.Hour}, c)
				free := ruled(t, "free", limit.Spec{Algorithm: limit.FixedWindow, Count: 1 << 20, Period: limit.Hour}, c)
				counts := []*engine.Policy{p, p, p, bringing(t, p, 500), bringing(t, p, 1000), bringing(t, p, 2000), bringing(t, p, 2100)}
				var admitted atomic.Int64
				var all sync.WaitGroup
				for i := range 40 {
					random := rand.New(rand.NewPCG(uint64(i), 3))
					all.Go(func() {
						for range 150 {
							by := counts[random.IntN(len(counts))]
							client := &client{t: t, store: s.caches[0], policy: by}
							before := admitted.Load()
							var g lease.Grant
							switch {
							case random.IntN(5) == 0:
								g = client.acquire(look(by, 0))[0]
							case grouped:
								g = client.acquire(client.ask(by, 1, 1, 1), client.ask(free, 1, 1, 1))[0]
							default:
								g = client.acquire(client.ask(by, 0, 1, 1))[0]
							}
							admitted.Add(g.Granted)
							if g.Status == lease.Unavailable || g.Granted > 0 && before >= by.Terms.Capacity || g.Remaining > by.Terms.Capacity {
								t.Errorf("%d admitted, by a count of %d: %+v", before, by.Terms.Capacity, g)
							}
							time.Sleep(time.Duration(random.ExpFloat64() * float64(5*time.Millisecond)))
						}
					})
				}
				all.Wait()
				last := &client{t: t, store: s.caches[0], policy: p}
				for misses := 0; admitted.Load() < 2000 && misses < 50; {
					n := single(last, 1)
					if admitted.Add(n); n == 0 {
						misses++
						time.Sleep(100 * time.Millisecond)
					}
				}
				time.Sleep(30 * time.Second) // what is on lease has come back
				if n := admitted.Load(); n < 2000 || n > 2100 || charged(t, s.base, counts[6], "hot") != n {
					t.Errorf("admitted %d, and %d are charged", n, charged(t, s.base, counts[6], "hot"))
				}
			})
		}
	}
}

// Units of a limit that a request brought come back, also if the rule's own limit is 0 or 1.
func TestLargerCountGivesBack(t *testing.T) {
	for _, count := range []int64{0, 1} {
		for _, first := range []bool{false, true} {
			for _, gone := range []bool{false, true} {
				t.Run(fmt.Sprintf("to %d, rule first %v, caller gone %v", count, first, gone), func(t *testing.T) {
					onSite(t, 1, func(t *testing.T, s *site) {
						p := ruled(t, "hour", limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: limit.Hour}, lease.Leased)
						by := bringing(t, p, 11)
						c := &client{t: t, store: s.caches[0]}
						if first {
							c.acquire(look(p, 0))
						}
						takeAndReturn(t, s, c.ask(by, 0, 6, 6), gone)
						for range 3 {
							if g := c.acquire(look(p, 0))[0]; g.Remaining != count {
								t.Errorf("by the rule's count got %+v, want %d left", g, count)
							}
							if g := c.acquire(look(by, 0))[0]; g.Remaining != 11 {
								t.Errorf("got %+v, want 11 left", g)
							}
						}
						time.Sleep(30 * time.Second) // what is on lease has come back
						if n := charged(t, s.base, by, "hot"); n != 0 {
							t.Errorf("%d stay charged", n)
						}
					})
				})
			}
		}
	}
}

// takeAndReturn gives back what an ask was granted, or leaves before the answer.
func takeAndReturn(t *testing.T, s *site, a engine.Ask, gone bool) {
	t.Helper()
	if gone {
		within(t, s.caches[0], time.Millisecond, a)
		time.Sleep(3 * time.Millisecond)
		return
	}
	g := within(t, s.caches[0], time.Second, a)[0]
	if g.Granted != a.Want.Want {
		t.Errorf("of %d: %+v", a.Policy.Terms.Capacity, g)
	}
	a.Want = lease.Want{Unused: g.Granted, Lease: g.Lease}
	within(t, s.caches[0], time.Second, a)
}

// After a request that brought a limit the store gets each ask for its key for a minute, and has all
// units that no request used. Other keys stay leased, and so is this one afterwards.
func TestKeyPassesForAMinute(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		p := ruled(t, "hour", limit.Spec{Algorithm: limit.FixedWindow, Count: 1 << 20, Period: limit.Hour}, lease.Leased)
		other := ruled(t, "other", limit.Spec{Algorithm: limit.FixedWindow, Count: 1 << 20, Period: limit.Hour}, lease.Leased)
		hot, beside := &client{t: t, store: s.caches[0], policy: p}, &client{t: t, store: s.caches[0], policy: other}
		asks := func(rule string, c *client, n int) int {
			before := s.asks(rule)
			for range n {
				if single(c, 1) != 1 {
					t.Fatalf("a request of %s was rejected", rule)
				}
			}
			return s.asks(rule) - before
		}
		asks("hour", hot, 200)
		asks("other", beside, 200)
		for _, count := range []int64{1 << 19, 1 << 10} {
			hot.policy = bringing(t, p, count)
			asks("hour", hot, 1)
		}
		used := int64(202)
		hot.policy = p
		for range 5 {
			if n := asks("hour", hot, 20); n != 20 {
				t.Errorf("%d asks for 20 requests of the key", n)
			}
			if used += 20; charged(t, s.base, p, "hot") != used {
				t.Errorf("%d are charged of the key, want %d", charged(t, s.base, p, "hot"), used)
			}
			if n := asks("other", beside, 20); n > 3 {
				t.Errorf("another key: %d asks for 20 requests", n)
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(12 * time.Second)
		if n := asks("hour", hot, 100); n > 20 {
			t.Errorf("a minute later: %d asks for 100 requests", n)
		}
		time.Sleep(2 * time.Minute)
		if keys := s.caches[0].Stats().Keys; keys > 0 {
			t.Errorf("%d keys two minutes later", keys)
		}
	})
}

// A key that was over the limit of a request stays rejected while the store does not answer, for that
// limit and for smaller ones. on_failure decides requests with larger limits.
func TestBroughtLimitStaysRejected(t *testing.T) {
	onSmallSite(t, 1, 1000, func(t *testing.T, s *site) {
		p := perMinute(t, lease.Leased, lease.FailureAllow)
		for range 5 {
			judgmentOf(t, s.judges[0], p, "k", 1)
		}
		by := func(count int64) *engine.Policy {
			b := bringing(t, p, count)
			b.OnFailure = lease.FailureAllow
			return b
		}
		for range 2 { // by the store, and from memory
			v := judgmentOf(t, s.judges[0], by(5), "k", 1)
			if !v.Rejected || v.Degraded != engine.Sound || v.Grant.RetryAfter <= 0 || v.Grant.RetryAfter > 60_000 || v.Grant.Reset != v.Grant.RetryAfter || v.Grant.AskAfter <= 0 || v.Grant.AskAfter > 60_000 {
				t.Errorf("with 5 of 5 used: %+v", v)
			}
		}
		before := s.asks(p.Rule)
		for range 50 {
			judgmentOf(t, s.judges[0], by(5), "k", 1)
			time.Sleep(time.Millisecond)
		}
		if n := s.asks(p.Rule) - before; n > 2 {
			t.Errorf("%d asks for 50 requests in 50 ms that do not fit", n)
		}
		s.fail(true)
		for _, c := range []struct {
			policy *engine.Policy
			how    engine.Degraded
		}{{by(5), engine.FailedDenied}, {by(2), engine.FailedDenied}, {by(9), engine.FailedAllow}, {p, engine.FailedAllow}} {
			time.Sleep(time.Second)
			if v := judgmentOf(t, s.judges[0], c.policy, "k", 1); v.Degraded != c.how || v.Admitted != (c.how == engine.FailedAllow) || max(v.Grant.RetryAfter, v.Grant.Reset) > 60_000 {
				t.Errorf("the store does not answer, by a count of %d: %+v", c.policy.Terms.Capacity, v)
			}
		}
	})
}

// A new version of a rule judges by its own count what was used by the one before, also where leases of that are here.
func TestNewVersionOfARule(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		used := int64(0)
		for i, count := range []int64{12, 12, 12, 3, 4, 4, 12, 7, 6, 12} {
			p := ruled(t, "hour", limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: limit.Hour}, lease.Leased)
			n := single(&client{t: t, store: s.caches[0], policy: p}, 1)
			if want := min(1, max(0, count-used)); n != want {
				t.Errorf("request %d, by a count of %d of which %d are used: granted %d, want %d", i, count, used, n, want)
			}
			used += n
		}
	})
}
