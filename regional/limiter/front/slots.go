package front

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/table"
)

// slots decides on an ask for a Concurrency limit. All go to the store but requests
// that would take as many slots as were denied to one just before, so that a flood
// of them on a key that is full costs ten asks a second. What it costs: a slot that
// is released elsewhere is noticed up to one lease interval later, here at once;
// and a request that repeats its take meanwhile is refused although it holds what
// it asks for, until the interval is over.
//
// What holders state is never kept from the store: it is what keeps their slots.
func (c *call) slots(a *limiter.Ask, i int) {
	s := c.store
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	e := shard.Find(hash, a.Policy, a.Key)
	if e != nil && a.Op != limiter.Take {
		if a.Op != limiter.Renew { // something may come free
			e.Value.node.Slot.NextAsk = 0
		}
		e = nil
	} else if a.Op == limiter.Take {
		e = s.entry(shard, hash, c.now, a)
	}
	switch {
	case e == nil:
		c.pass(a, i)
	case c.now < e.Value.away:
		c.unavailable(i)
	case c.now < e.Value.node.Slot.NextAsk && a.Want.Need >= e.Value.node.Slot.DeniedNeed:
		c.grants[i] = noSlot(&a.Policy.Terms, c.now, &e.Value.node.Slot)
		c.answered(lease.Refuse)
	default:
		c.asking().take(c.now, shard, e, a, waiter{reply: c.expect(i), at: i})
	}
}

// take asks for a request's slots as they are, and learns from the answer.
func (b *batch) take(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask, w waiter) {
	e.Value.out++
	b.asks = append(b.asks, *a)
	b.asks[len(b.asks)-1].Key = e.Key()
	b.members = append(b.members, member{shard: shard, entry: e, sent: now, queue: []waiter{w}})
}

// noSlot is a denial from memory.
func noSlot(t *lease.Terms, now lease.Millis, s *lease.Slot) lease.Grant {
	again := s.NextAsk - now
	return lease.Grant{
		Status: lease.Denied, RetryAfter: again, AskAfter: again,
		Limit: t.Capacity, Remaining: s.Left, Reset: max(0, s.Reset-now),
	}
}

// learnSlots remembers that slots were denied.
func (c *cached) learnSlots(now lease.Millis, a *limiter.Ask, g lease.Grant) {
	slot := &c.node.Slot
	if g.Status != lease.Denied || g.RetryAfter >= lease.Millis(limit.Never/limit.Millisecond) {
		return // granted, unknown, or a need that the limit never has
	}
	slot.DeniedNeed = min(a.Want.Need, g.Remaining+1)
	slot.NextAsk, slot.Left, slot.Reset = now+g.AskAfter, g.Remaining, now+g.Reset
}
