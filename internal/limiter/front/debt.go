package front

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// owed is a debt of a caller on its way to the store. The front neither adds it up nor
// pays it from its own leases: the caller repeats it until it is acknowledged, and only
// the store can tell a repetition from another debt.
type owed struct {
	ask   limiter.Ask // the debt alone; its key is the caller's
	at    int         // index of the want's grant
	reply *reply
	only  bool                        // the want says nothing else: the store's grant is the answer
	above atomic.Pointer[lease.Grant] // the store's answer, if it has taken the debt
}

// debts takes the debts out of asks and passes each on to the store, in an ask of its
// own that asks for nothing. The others are decided as if there were none. What it
// returns is a copy where there are debts: asks are the caller's.
func (c *call) debts(asks []limiter.Ask) []limiter.Ask {
	if !slices.ContainsFunc(asks, owes) {
		return asks
	}
	rest := slices.Clone(asks)
	for i := range rest {
		a := &rest[i]
		if !owes(*a) {
			continue
		}
		debt := limiter.Ask{Policy: a.Policy, Key: a.Key, Want: lease.Want{Overdrawn: a.Want.Overdrawn, Debt: a.Want.Debt}}
		a.Want.Overdrawn, a.Want.Debt = 0, 0
		o := &owed{ask: debt, at: i, only: a.Group == 0 && a.Peeks()}
		c.owed = append(c.owed, o)
		if c.store.isAway(c.now, &debt) {
			if o.only {
				c.unavailable(i)
			}
			continue
		}
		if c.reply == nil {
			c.reply = newReply(c.grants)
		}
		if o.reply = c.reply; o.only {
			o.reply.expect(i)
		} else {
			o.reply.expectMore()
		}
		b := c.asking()
		debt.Key = bytes.Clone(a.Key) // the caller may leave before it is sent
		b.asks = append(b.asks, debt)
		b.members = append(b.members, member{owed: o})
	}
	return rest
}

func owes(a limiter.Ask) bool {
	return a.Want.Overdrawn > 0 && a.Policy.Limit.Spec().Algorithm != limit.Concurrency
}

// onlyOwes reports whether grant i is the answer to a debt, or was given already.
func (c *call) onlyOwes(a *limiter.Ask, i int) bool {
	if c.owed == nil || !a.Peeks() {
		return false
	}
	return slices.ContainsFunc(c.owed, func(o *owed) bool { return o.at == i && o.only })
}

// answer takes the store's answer to a debt.
func (o *owed) answer(g lease.Grant) {
	if decided(g) {
		o.above.Store(&g)
	}
	if o.only {
		o.reply.answer(o.at, g)
	} else {
		o.reply.answerMore()
	}
}

func decided(g lease.Grant) bool { return g.Status == lease.OK || g.Status == lease.Denied }

// stillOwed says in the grants of wants what became of their debts. A holder that gives
// debts no number does not read that it still owes: to it the want was not decided.
func (c *call) stillOwed() {
	for _, o := range c.owed {
		g := &c.grants[o.at]
		switch above := o.above.Load(); {
		case above != nil:
			*g = o.ask.Policy.Terms.AfterDebt(*g, *above)
		case o.ask.Want.Debt != 0:
			g.StillOwed = true
		case decided(*g):
			if g.Granted > 0 {
				c.store.takeBackFor(&o.ask, *g)
			}
			*g = lease.Grant{Status: lease.Unavailable}
		}
	}
}

// isAway reports whether the store is to be left alone for a key.
func (s *Store) isAway(now lease.Millis, a *limiter.Ask) (away bool) {
	s.withEntry(a, func(_ *table.Shard[cached], e *table.Entry[cached]) { away = now < e.Value.away })
	return away
}

// heardOfDebt notes what the answer to a caller's debt says of a key.
func (s *Store) heardOfDebt(now lease.Millis, a *limiter.Ask, g lease.Grant) {
	s.withEntry(a, func(_ *table.Shard[cached], e *table.Entry[cached]) {
		e.Value.hear(now, g)
		e.Value.node.Told(&a.Policy.Terms, now, g)
	})
}
