package front

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// denialMemory is how long after a request might have asked again a denial is still
// remembered: a second in which none did is no flood.
const denialMemory = lease.Millis(limit.Second / limit.Millisecond)

// slots decides on an ask for a Concurrency limit. All go to the store but requests
// for which there is no slot by what was heard last, see [cached.mayTake].
//
// What holders state is never kept from the store: it is what keeps their slots.
func (c *call) slots(a *limiter.Ask, i int) {
	if a.Op != limiter.Take {
		c.pass(a, i)
		return
	}
	s := c.store
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	e := s.entry(shard, hash, c.now, a)
	switch {
	case e == nil:
		c.pass(a, i)
	case c.now < e.Value.away:
		c.unavailable(i)
	case !e.Value.mayTake(&a.Policy.Terms, c.now, a.Want.Need):
		c.grants[i] = noSlot(&a.Policy.Terms, c.now, &e.Value.node.Account)
		c.answered(lease.Refuse)
	default:
		c.asking().take(c.now, shard, e, a, waiter{reply: c.expect(i), at: i})
	}
}

// mayTake says whether a request for so many slots goes to the store, and claims
// them. After a denial those do that fit into what the last reply left, and beyond
// them one in a lease interval: however many come while its answer is under way, a
// key that is full costs ten asks a second, and one for each slot that came free.
// What it costs: a slot that is released elsewhere is noticed up to one lease
// interval later, here at once; and a request that repeats its take meanwhile is
// refused although it holds what it asks for.
func (c *cached) mayTake(t *lease.Terms, now lease.Millis, need int64) bool {
	slot := &c.node.Account
	switch {
	case slot.DeniedNeed == 0 || now >= slot.NextAsk+denialMemory:
		slot.DeniedNeed = 0
	case need < slot.DeniedNeed:
		slot.DeniedNeed = max(1, slot.DeniedNeed-need)
	case now < slot.NextAsk:
		return false
	default:
		slot.NextAsk = now + t.Interval
	}
	return true
}

// take asks for a request's slots as they are, and learns from the answer.
func (b *batch) take(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask, w waiter) {
	e.Value.out++
	b.asks = append(b.asks, *a)
	b.asks[len(b.asks)-1].Key = e.Key()
	b.members = append(b.members, member{shard: shard, entry: e, sent: now, queue: []waiter{w}})
}

// noSlot is a denial from memory.
func noSlot(t *lease.Terms, now lease.Millis, s *lease.Account) lease.Grant {
	again := s.NextAsk - now
	return lease.Grant{
		Status: lease.Denied, RetryAfter: again, AskAfter: again,
		Limit: t.Capacity, Remaining: s.Left, Reset: max(0, s.Reset-now),
	}
}

// learnSlots remembers that slots were denied to a request, and from then on how
// many are free by any reply, less one for each request that is under way: what it
// takes may not be in that reply yet.
func (c *cached) learnSlots(now lease.Millis, a *limiter.Ask, g lease.Grant) {
	slot := &c.node.Account
	denied := a.Op == limiter.Take && g.Status == lease.Denied
	switch {
	case g.Status != lease.OK && g.Status != lease.Denied, slot.DeniedNeed == 0 && !denied:
		return
	case denied && g.RetryAfter >= lease.Never:
		return // a need that the limit never has
	}
	slot.Left, slot.Reset = g.Remaining, now+g.Reset
	slot.DeniedNeed = 1 + max(0, g.Remaining-int64(c.out))
	if denied {
		slot.DeniedNeed = min(slot.DeniedNeed, a.Want.Need)
		slot.NextAsk = now + g.AskAfter
	}
}
