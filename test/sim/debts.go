package sim

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
)

// What a store makes of debts and of lies cannot be seen in its answers: it shows in what
// is left of the limit.

// measure notes what is left of counters of which an ask tells a debt, or a lie.
func (g *granter) measure(asks []limiter.Ask) map[counterKey]int64 {
	var before map[counterKey]int64
	for i := range asks {
		a := &asks[i]
		if a.Want.Overdrawn > 0 || g.lies(a) {
			if before == nil {
				before = map[counterKey]int64{}
			}
			before[keyOf(a)] = g.peek(a.Policy, string(a.Key))
		}
	}
	return before
}

// lies reports whether an ask gives back what a PoP never had.
func (g *granter) lies(a *limiter.Ask) bool {
	for _, r := range a.Returned {
		if g.w.ref.lies[r.Name] {
			return true
		}
	}
	return false
}

// measured compares it with what is left afterwards.
func (g *granter) measured(before map[counterKey]int64, asks []limiter.Ask, grants []lease.Grant) {
	for key, left := range before {
		var granted int64
		var policy *limiter.Policy
		learned, lied := false, false
		for i := range asks {
			if a := &asks[i]; keyOf(a) == key {
				granted += grants[i].Granted
				policy, learned, lied = a.Policy, learned || a.Former != 0, lied || g.lies(a)
			}
		}
		now := g.peek(policy, key.key)
		switch {
		case lied:
			g.w.ref.believed(key, now+granted-left)
		case !learned:
			g.w.ref.charged(key, left-granted-now)
		}
	}
}

// believed follows what of a lie a store has taken for units that came back. What nobody
// can have had it must not believe; what it has handed out to others it may: then so
// much more than the limit may be admitted.
func (ref *referee) believed(key counterKey, units int64) {
	a := ref.account(key)
	if units > a.most {
		ref.fail(11, "%v: %d units came back that were never granted", key, units)
	}
	a.extra += max(units, 0)
}

// charged follows a debt that is charged: what was admitted without a lease is charged
// once. A store that lost its counters may charge it again, to a new one.
func (ref *referee) charged(key counterKey, units int64) {
	a := ref.account(key)
	a.debts.charged += max(units, 0)
	if d := &a.debts; d.charged > d.owed && a.losses == 0 && a.extra == 0 {
		ref.fail(1, "%v: %d were admitted without a lease, and %d charged for it", key, d.owed, d.charged)
	}
}
