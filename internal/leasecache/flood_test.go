package leasecache_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// client sends requests to one replica.
type client struct {
	t      testing.TB
	store  engine.Store
	policy *engine.Policy
	random *rand.Rand
}

// offer sends so many times a limit on one key, over all replicas, for 12 s. send sends a request of such a cost, and
// answers the units admitted.
func (s *site) offer(t *testing.T, p *engine.Policy, times float64, send func(*client, int64) int64) {
	spec := p.Limit.Spec()
	perSecond := times * float64(spec.Count) / (float64(spec.Period) / float64(limit.Second)) / float64(len(s.caches))
	rate := min(40, perSecond) // requests per second and replica
	const callers = 30
	end := time.Now().Add(12 * time.Second)
	var all sync.WaitGroup
	for i, f := range s.caches {
		for j := range callers {
			c := &client{t: t, store: f, policy: p, random: rand.New(rand.NewPCG(uint64(i), uint64(j)))}
			all.Go(func() {
				for {
					time.Sleep(time.Duration(2 * c.random.Float64() * callers / rate * float64(time.Second)))
					if !time.Now().Before(end) {
						return
					}
					cost := int64(1) // and so much more that the mean is what is offered
					if mean := max(1, perSecond/rate); mean > 1 {
						cost += c.random.Int64N(int64(2*mean - 1))
					}
					send(c, cost)
				}
			})
		}
	}
	all.Wait()
}

// acquire asks within the usual time.
func (c *client) acquire(asks ...engine.Ask) []lease.Grant {
	return within(c.t, c.store, 100*time.Millisecond, asks...)
}

func (c *client) ask(p *engine.Policy, group uint32, need, want int64) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte("hot"), Group: group, Want: lease.Want{Need: need, Waiting: need, Want: want}}
}

// single is a client of one rule that asks for what it needs.
func single(c *client, cost int64) int64 { return c.acquire(c.ask(c.policy, 0, cost, cost))[0].Granted }

// asksAhead is a client that asks ahead, and gives back what it asked ahead half of
// the time.
func asksAhead(c *client, cost int64) int64 {
	g := c.acquire(c.ask(c.policy, 0, cost, 4*cost))[0]
	if spare := g.Granted - cost; spare > 0 && c.random.IntN(2) == 0 {
		back := c.ask(c.policy, 0, 0, 0)
		back.Want.Unused, back.Want.Lease = spare, g.Lease
		c.acquire(back)
		return cost
	}
	return g.Granted
}

// grouped is a client whose requests match several rules.
func grouped(others ...*engine.Policy) func(*client, int64) int64 {
	return func(c *client, cost int64) int64 {
		asks := []engine.Ask{c.ask(c.policy, 1, cost, cost)}
		for _, p := range others {
			asks = append(asks, c.ask(p, 1, 1, 1))
		}
		grants := c.acquire(asks...)
		for _, g := range grants[1:] {
			if (g.Granted > 0) != (grants[0].Granted > 0) && g.Status != lease.Unavailable && grants[0].Status != lease.Unavailable {
				c.t.Errorf("granted in part: %+v", grants)
			}
		}
		return grants[0].Granted
	}
}

// mixed is clients of every kind.
func mixed(kinds ...func(*client, int64) int64) func(*client, int64) int64 {
	return func(c *client, cost int64) int64 { return kinds[c.random.IntN(len(kinds))](c, cost) }
}

// algorithms are limits of every kind.
var algorithms = map[string]limit.Spec{
	"bucket":        {Algorithm: limit.TokenBucket},
	"fixed":         {Algorithm: limit.FixedWindow},
	"first request": {Algorithm: limit.FixedWindow, Align: limit.AlignFirstRequest},
	"sliding":       {Algorithm: limit.SlidingWindow},
	"log":           {Algorithm: limit.SlidingLog},
}

// Whatever the clients of one key send, each replica asks the store for it at most ten
// times a second and log2 of the limit per window, and while it is under its limit on
// behalf of who fits, 64 times for each use of the whole limit.
func TestHotKeyIsAskedForTenTimesASecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count int64
		per   limit.Micros
	}{{10, limit.Second}, {3000, limit.Second}, {1_000_000, limit.Minute}} {
		for name, spec := range algorithms {
			for _, offered := range []float64{0.8, 6} {
				if testing.Short() && (offered < 1) != (c.count == 3000) {
					continue
				}
				t.Run(fmt.Sprintf("%d in %ds, %s, offered %v", c.count, c.per/limit.Second, name, offered), func(t *testing.T) {
					spec.Count, spec.Period = c.count, c.per
					onSite(t, 2, func(t *testing.T, s *site) {
						tight := limit.Spec{Algorithm: limit.FixedWindow, Count: 20, Period: limit.Second}
						p, other := ruled(t, "hot", spec, lease.Leased), ruled(t, "other", tight, lease.Leased)
						exact := ruled(t, "exact", limit.Spec{Algorithm: limit.FixedWindow, Count: 1 << 20, Period: limit.Hour}, lease.Exact)
						s.offer(t, p, offered, mixed(single, single, asksAhead, grouped(other), grouped(exact), grouped(other, exact)))
						for p, rule := range map[*engine.Policy]string{p: "hot", other: "other"} {
							most := allowed(p.Limit.Spec())
							if rule == "hot" && offered < 1 && p.Limit.Spec().Period <= 10*limit.Second {
								most += 64 * int(10*limit.Second/p.Limit.Spec().Period)
							}
							if asks := s.most(rule); asks > most {
								t.Errorf("rule %s was asked for %d times in ten seconds, at most %d", rule, asks, most)
							}
						}
					})
				})
			}
		}
	}
}
