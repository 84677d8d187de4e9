package enginetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

// admission is units that were admitted at a time.
type admission struct {
	at    limit.Micros
	units int64
}

// twin is one exact limiter that has admitted what a store has.
type twin struct {
	policy *engine.Policy
	spent  []admission
}

// fits reports whether it would admit so many units, without what came back to it within
// the last seconds: that need not be known yet.
func (w *twin) fits(now limit.Micros, units int64) bool {
	lately := 2 * limit.Second
	if w.policy.Limit.Spec().Algorithm == limit.SlidingLog { // it counts from the end of a lease
		lately += 10 * limit.Second
	}
	return w.has(now, now, units) && w.has(now, now-lately, units)
}

// has reports whether it has room now, by what had come back at a time.
func (w *twin) has(now, at limit.Micros, units int64) bool {
	var s limit.State
	for _, o := range w.spent {
		s = w.policy.Limit.Charge(s, min(o.at, at), o.units)
	}
	return w.policy.Limit.Peek(s, at, units).RetryAfter == 0
}

// pause lets time pass now and then.
func pause(random *rand.Rand, s Subject, c *clock, store engine.Store) {
	if random.IntN(6) == 0 {
		c.advance([]limit.Micros{1, 30, 400, 1500, 11_000}[random.IntN(5)] * limit.Millisecond)
		if s.Cached {
			s.Settle(store)
		}
	}
}

// costs plays requests of any cost at a holder that is alone. It is refused nothing that the limit has, though most of
// that is on lease with itself. A request that comes back after as many seconds as it was told is admitted.
func costs(t *testing.T, s Subject) {
	for _, c := range []struct {
		count int64
		per   limit.Micros
		terms []func(*lease.Terms)
		back  bool // refused requests come back
	}{
		{60, limit.Hour, nil, false},
		{10, 10 * limit.Second, nil, true},
		{10, 10 * limit.Second, []func(*lease.Terms){exact}, true},
	} {
		everyAlgorithm(t, c.count, c.per, func(t *testing.T, spec limit.Spec) {
			clk, store, p := s.begin(t, spec, c.terms...)
			random := rand.New(rand.NewPCG(uint64(c.count), 3))
			for _, most := range []int64{2, max(1, c.count/6), c.count} {
				h, w := pop{t: t, store: store, policy: p, key: fmt.Sprint("k", most), clock: clk}, twin{policy: p}
				for range 50 {
					pause(random, s, clk, store)
					cost := 1 + random.Int64N(most)
					admitted := h.request(cost)
					// A cache takes back of two leases, and a log may have more.
					if !admitted && !(s.Cached && spec.Algorithm == limit.SlidingLog) && w.fits(clk.now(), cost) {
						t.Fatalf("a request of %d is refused; admitted were %v of %d; %+v", cost, w.spent, c.count, h.slot)
					}
					if wait := h.slot.Retry(&p.Terms, h.now(), cost); !admitted && c.back && random.IntN(3) > 0 {
						clk.advance(limit.Micros(wait+999) / 1000 * limit.Second)
						if s.Cached {
							s.Settle(store)
						}
						if admitted = h.request(cost); !admitted {
							t.Fatalf("a request of %d is refused %d ms after it was refused; %+v", cost, wait, h.slot)
						}
					}
					if admitted {
						w.spent = append(w.spent, admission{clk.now(), cost})
					}
				}
			}
		})
	}
}

// pop is a PoP with one key.
type pop struct {
	t      *testing.T
	store  engine.Store
	policy *engine.Policy
	key    string
	clock  *clock
	slot   holder.State
}

func (h *pop) now() lease.Millis { return lease.Millis(h.clock.steady() / limit.Millisecond) }

// request decides a request as a PoP does.
func (h *pop) request(cost int64) bool {
	t := &h.policy.Terms
	for range 6 {
		d := h.slot.Take(t, h.now(), cost)
		if d.Ask != holder.NoAsk {
			h.ask(h.slot.Ask(t, h.now(), 0, 0, d.Ask), 0)
		}
		if d.Verdict != holder.Wait {
			return d.Verdict == holder.Admit
		}
		if h.ask(h.slot.Ask(t, h.now(), cost, cost, holder.NoAsk), cost) {
			return true
		}
	}
	h.t.Fatalf("a request of %d is asked for again and again; %+v", cost, h.slot)
	return false
}

// ask sends a want, and takes so many units of the grant for the request that waits, if it
// has them.
func (h *pop) ask(w lease.Want, cost int64) (served bool) {
	g := acquire(h.t, h.store, h.policy, h.key, w)
	spare := g.Granted
	if served = cost > 0 && g.Granted >= cost; served {
		spare -= cost
	}
	if back := h.slot.Apply(&h.policy.Terms, h.now(), h.now(), w, g, spare, 100); back.Units > 0 {
		acquire(h.t, h.store, h.policy, h.key, lease.Want{Unused: back.Units, Lease: back.Lease})
	}
	return served
}
