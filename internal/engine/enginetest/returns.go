package enginetest

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// giveBackDoubled gives units back, a part of what was granted, in calls of which the
// network brings copies to another replica as well, and to the same one again: alone, in a
// group and beside a want. What was spent stays spent.
func giveBackDoubled(t *testing.T, s Subject) {
	everyAlgorithm(t, 1000, limit.Day, func(t *testing.T, spec limit.Spec) {
		c := newClock()
		stores := s.Two(t, c.options())
		p, other := policyOf(t, spec), named(t, "other", 0, spec)
		const calls, taken, unused = 6, 100, 70
		var copies [][]engine.Ask
		for i := range calls {
			g := acquire(t, stores[i%2], p, "k", one(taken))
			if g.Granted != taken {
				t.Fatalf("%+v", g)
			}
			name := uint64(i + 1)
			a := returning(p, g.Lease, lease.Returned{Name: name, Units: unused})
			switch i % 3 {
			case 0:
				copies = append(copies, []engine.Ask{a})
			case 1:
				a.Group = 1
				copies = append(copies, []engine.Ask{a, {Policy: other, Key: []byte("k"), Group: 1, Want: one(1)}})
			case 2: // as a cache passes on what two of its holders returned, and asks for more
				a = returning(p, g.Lease, lease.Returned{Name: name, Units: 50}, lease.Returned{Name: name << 60, Units: unused - 50})
				a.Want.Need, a.Want.Waiting, a.Want.Want = 1, 1, 1
				copies = append(copies, []engine.Ask{a})
			}
		}
		units := int64(calls * (taken - unused))
		for round := range 3 {
			for i, asks := range copies {
				units += acquireAll(t, stores[(i+round)%2], asks...)[0].Granted
			}
			c.advance(50 * limit.Millisecond)
		}
		for need := int64(64); need > 0; need /= 4 {
			for i, denied := 0, 0; denied < 6; i++ {
				if s.Cached {
					s.Settle(stores[i%2])
				}
				c.advance(100 * limit.Millisecond)
				granted := acquire(t, stores[i%2], p, "k", one(need)).Granted
				if units += granted; granted == 0 {
					denied++
				}
			}
		}
		if units > 1000 || units < s.least(1000) {
			t.Errorf("%d units of 1000 were spent", units)
		}
	})
}

// returning is an ask that gives units back under names, and no others.
func returning(p *engine.Policy, of uint32, returned ...lease.Returned) engine.Ask {
	a := engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Lease: of}, Returned: returned}
	for _, r := range returned {
		a.Want.Unused += r.Units
	}
	return a
}
