package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

// TestLiars is promise 11: a PoP lies about what comes back and what it owes; the network repeats calls; and calls of all PoPs
// overtake each other between 64 workers, by up to 50 ms; in one region, and in one of three below an
// aggregator. No limit is lifted, no honest call is rejected,
// and no key is denied of which nobody has had anything.
func TestLiars(t *testing.T) {
	for seed := uint64(1); seed <= runsOf(8, 100); seed++ {
		for _, global := range []bool{false, true} {
			if err := playLiars(t, seed, None, global); err != nil {
				t.Errorf("global %v: %v", global, err)
			}
		}
	}
}

// TestLiarsAreSeen breaks what keeps an honest call from being rejected.
func TestLiarsAreSeen(t *testing.T) {
	catches(t, 40, func(seed uint64, f Fault) error { return playLiars(t, seed+1, f, seed%4 == 3) }, MixesWorkers)
}

func playLiars(t *testing.T, seed uint64, fault Fault, global bool) error {
	rnd := rand.New(rand.NewPCG(seed, 2))
	spec := limit.Spec{Algorithm: windowed[rnd.IntN(len(windowed))], Count: pick(rnd, int64(20), 100, 1000), Period: pick(rnd, limit.Second, limit.Minute)}
	consistency := pick(rnd, lease.Leased, lease.Leased, lease.Exact)
	if global {
		spec.Period, consistency = pick(rnd, 10*limit.Second, limit.Minute), lease.Leased
	}
	r := newRule(t, "r", spec, consistency)
	c := Config{
		Seed: seed, PoPs: 4, Relays: pick(rnd, 0, 2, 3),
		Workers: 64, Hold: 49 * limit.Millisecond,
		Net:   Net{Delay: limit.Millisecond, Spread: 10 * limit.Millisecond, Repeat: pick(rnd, 0, 0.1)},
		Fault: fault, Trace: tracing(),
	}
	if global {
		r.Scope, r.OnFailure, r.Timeout = rule.ScopeGlobal, lease.FailureDeny, 1000
		if spec.Algorithm == limit.TokenBucket || spec.Algorithm == limit.FixedWindow {
			r.Sharing = pick(rnd, rule.SharingProportional, rule.SharingEqual)
		}
		c.PoPs, c.Relays, c.Regions, c.AggregatorNet = 6, 6, 3, Net{Delay: 20 * limit.Millisecond}
		c.Net.Repeat = 0 // the copy is answered "unavailable" before its call is
	}
	c.Fault.sent = func(c *call) {
		if c.p == c.p.w.pops[0] {
			c.lies()
		}
	}
	return Play(c, func(w *World) error {
		for n := range w.PoPs {
			w.Offer(n+1, Load{Rate: float64(pick(rnd, 20, 200)), Parts: func() []Part {
				return []Part{{r, fmt.Sprint("hot", rnd.IntN(3)), 1 + rnd.Int64N(2)}}
			}}, 8*limit.Second)
		}
		var fresh []*request
		for i := range 200 {
			w.after(limit.Micros(rnd.Int64N(int64(8*limit.Second))), func() {
				q := new(request)
				w.pops[1+i%(w.PoPs-1)].take(q, []Part{{r, fmt.Sprint("fresh", i), 1}})
				fresh = append(fresh, q)
			})
		}
		if err := w.Run(10 * limit.Second); err != nil {
			return err
		}
		for i, q := range fresh {
			if !q.admitted {
				return fmt.Errorf("seed %d: request %d was rejected, and nobody has had anything of its key", seed, i)
			}
		}
		return nil
	}, r)
}

// lies follows a call of a PoP that lies: it reports that units come back which nobody ever
// had, of leases that it had and of others; that it owes what nobody admitted, by rules by which
// nobody can owe anything.
func (c *call) lies() {
	p, w := c.p, c.p.w
	if w.chance(0.3) {
		lie := c.apart()
		for _, m := range c.req.Wants {
			r := w.rules.find(m.Rule)
			l := p.entry(r.counter(string(m.Key))).Leases[w.rand.IntN(2)].Lease
			if w.chance(0.3) {
				l += uint32(w.rand.IntN(3))
			}
			units := pick(w.rand, wire.MaxUnits, 1<<31, 2*r.Terms.Capacity+1)
			lie.add(m, units, r.Limit.Fingerprint(), l)
		}
		lie.fly(c)
	}
	if w.chance(0.2) {
		debt := c.apart()
		for _, m := range c.req.Wants {
			if r := w.rules.find(m.Rule); r.Terms.MaxDebt(r.OnFailure) == 0 {
				debt.add(m, 0, 0, 0)
				owed := &debt.req.Wants[len(debt.req.Wants)-1].Want
				owed.Overdrawn, owed.Debt = pick(w.rand, int64(1), wire.MaxUnits), w.rand.Uint64()
			}
		}
		debt.fly(c)
	}
}
