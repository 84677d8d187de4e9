package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// slotState is what the cache remembers of a key of a Concurrency limit since slots were
// denied to a request. Slots are never on lease in the cache.
//
// Invariant: denied >= 0, and no request for fewer slots than denied is refused from
// memory.
type slotState struct {
	denied int64        // the least need that is refused; 0: none is
	free   int64        // slots that the last reply left
	askAt  lease.Millis // when the store may be asked for one that is refused
	reset  lease.Millis // when all slots are free if none is renewed, by the last reply
}

// denialMemory is how long after askAt a denial is still remembered: a second without a
// request is no flood.
const denialMemory = lease.Millis(limit.Second / limit.Millisecond)

// slots decides on an ask for a Concurrency limit. All go to the store but requests for
// which there is no slot by its last reply, see [slotState.mayTake].
//
// Statements of holders always go to the store: they are what keeps their slots.
func (q *acquisition) slots(a *engine.Ask, i int) {
	if a.Op != engine.Take {
		q.pass(a, i)
		return
	}
	k := q.store.lock(a)
	defer k.shard.Unlock()
	switch {
	case !k.findOrAdd(q.now, a):
		q.pass(a, i)
	case q.now < k.Value.pause:
		q.unavailable(i)
	case !k.Value.slots.mayTake(&a.Policy.Terms, q.now, a.Want.Need):
		q.grants[i] = k.Value.slots.denial(&a.Policy.Terms, q.now)
		q.answered(lease.Refuse)
	default:
		q.asking().take(q.now, k, a, waiter{answers: q.await(i, atEnd), at: i})
	}
}

// mayTake reports whether a request for so many slots goes to the store, and claims
// them. After a denial those do that fit into what the last reply left, and beyond
// them one in a lease interval: however many come while its answer is under way, a
// key that is full costs ten asks a second, and one for each slot that came free.
// What it costs: a slot that is released elsewhere is noticed up to one lease
// interval later, here at once; and a request that repeats its take meanwhile is
// refused although it holds what it asks for.
func (s *slotState) mayTake(t *lease.Terms, now lease.Millis, need int64) bool {
	switch {
	case s == nil:
	case s.denied == 0 || now >= s.askAt+denialMemory:
		s.denied = 0
	case need < s.denied:
		s.denied = max(1, s.denied-need)
	case now < s.askAt:
		return false
	default:
		s.askAt = now + t.Interval
	}
	return true
}

// denial is a denial from memory.
func (s *slotState) denial(t *lease.Terms, now lease.Millis) lease.Grant {
	again := s.askAt - now
	return lease.Grant{
		Status: lease.Denied, RetryAfter: again, AskAfter: again,
		Limit: t.Capacity, Remaining: s.free, Reset: max(0, s.reset-now),
	}
}

// idle reports that a key without the state would do the same.
func (s *slotState) idle(now lease.Millis) bool {
	return s == nil || now >= s.askAt && (s.denied == 0 || now >= s.reset)
}

// take asks for a request's slots as they are, and learns from the answer.
func (b *batch) take(now lease.Millis, k key, a *engine.Ask, w waiter) {
	k.Value.out++
	taken := *a
	taken.Key = k.Key()
	b.put(taken, pending{key: k, sent: now, queue: []waiter{w}})
}

// learnSlots remembers that slots were denied to a request, and from then on how
// many are free by any reply, less one for each request that is under way: what it
// takes may not be in that reply yet.
func (c *cached) learnSlots(now lease.Millis, a *engine.Ask, g lease.Grant) {
	denied := a.Op == engine.Take && g.Status == lease.Denied
	switch {
	case !decided(g) || !denied && (c.slots == nil || c.slots.denied == 0):
		return
	case denied && g.RetryAfter >= lease.Never:
		return // a need that the limit never has
	case c.slots == nil:
		c.slots = new(slotState)
	}
	s := c.slots
	s.free, s.reset = g.Remaining, now+g.Reset
	s.denied = 1 + max(0, g.Remaining-int64(c.out))
	if denied {
		s.denied = min(s.denied, a.Want.Need)
		s.askAt = now + g.AskAfter
	}
}
