package front

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// peek answers a question from memory if that knows. Else it waits for the reply to
// an ask that is yet to be sent, as all do that come during a round trip.
func (c *call) peek(shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask, i int) {
	switch v := &e.Value; {
	case v.knows(c.now, a.Policy):
		c.grants[i], _, _ = v.node.Acquire(&a.Policy.Terms, c.now, a.Want)
		c.answered(lease.Admit)
	case !v.mayPeek(c.now, a.Policy):
		c.unavailable(i)
	default:
		c.wait(shard, e, a, i)
	}
}

// knows reports whether what was heard of a key answers a question: for a lease
// interval, and for longer while it may not be asked for. Of an exact rule, that
// nothing is left and no more, as long as a request would be refused by it.
func (c *cached) knows(now lease.Millis, p *limiter.Policy) bool {
	slot := &c.node.Account
	over := p.Terms.Window > 0 && slot.Reset <= now && slot.Left < p.Terms.Capacity
	recent := now < c.heard+p.Terms.Interval && !over
	switch {
	case c.heard == 0:
		return false
	case p.Terms.Consistency == lease.Exact:
		denied := slot.DeniedNeed == 1 && now < slot.NextAsk
		return slot.Left == 0 && now < slot.Reset && (recent || denied)
	}
	return recent || !c.mayPeek(now, p)
}

// mayPeek reports whether a key may be asked for on behalf of a question.
func (c *cached) mayPeek(now lease.Millis, p *limiter.Policy) bool {
	return now >= c.away && c.budget.wait(now, c.pace(now, p), kept) == 0
}

// apart takes the questions out of a queue.
func apart(queue []waiter) (asking, peeks []waiter) {
	asking = queue[:0]
	for _, w := range queue {
		if w.want.Want > 0 {
			asking = append(asking, w)
		} else {
			peeks = append(peeks, w)
		}
	}
	return asking, peeks
}

// tell answers the questions that went along with an ask: what is left above, here and
// on its way, less what has been admitted without a lease and the store has not heard of.
func (m *member) tell(now lease.Millis, a *limiter.Ask, g lease.Grant) {
	if len(m.peeks) == 0 {
		return
	}
	told := lease.Grant{Status: g.Status}
	if decided(g) {
		v, t := &m.entry.Value, &a.Policy.Terms
		left := min(g.Remaining+v.spare(t, now), t.Capacity) - v.node.Account.Overdrawn
		told = lease.Grant{Status: lease.OK, Limit: t.Capacity, Remaining: max(0, left), Reset: g.Reset}
	}
	for _, w := range m.peeks {
		w.reply.answer(w.at, told)
	}
}
