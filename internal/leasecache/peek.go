package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
)

// peek answers an ask that only reads what is left, from memory if it can. Else it
// waits for the reply to an ask that is yet to be sent, as all do that come during a round
// trip.
func (q *acquisition) peek(k key, a *engine.Ask, i int) {
	switch {
	case k.answersPeek(q.now, a.Policy):
		q.grants[i], _, _ = k.Value.relay.Acquire(&a.Policy.Terms, q.now, a.Want)
		q.answered(lease.Admit)
	case !k.mayPeek(q.now):
		q.unavailable(i)
	default:
		q.wait(k, a, i, atEnd)
	}
}

// answersPeek reports whether the last reply answers a peek: for a lease interval, and for
// longer while the store may not be asked. For an exact rule it
// only answers that nothing is left, for as long as the rule refuses requests.
func (k key) answersPeek(now lease.Millis, p *engine.Policy) bool {
	v, account := &k.Value, &k.Value.relay.Account
	over := p.Terms.Window > 0 && account.Reset <= now && account.Left < p.Terms.Capacity
	recent := now < v.replied+p.Terms.Interval && !over
	switch {
	case v.replied == 0:
		return false
	case p.Terms.Consistency == lease.Exact:
		denied := account.DeniedNeed == 1 && now < account.NextAsk
		return account.Left == 0 && now < account.Reset && (recent || denied)
	}
	return recent || !k.mayPeek(now)
}

// mayPeek reports whether the store may be asked on behalf of a peek.
func (k key) mayPeek(now lease.Millis) bool {
	return now >= k.Value.pause && k.Value.budget.wait(now, k.pace(now), kept) == 0
}

// splitPeeks takes the peeks out of a queue.
func splitPeeks(queue []waiter) (asking, peeks []waiter) {
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

// answerPeeks answers the peeks that went along with an ask: what is left in the store, in
// the cache and on its way, less what has been admitted without a lease and is not reported
// yet.
func (p *pending) answerPeeks(now lease.Millis, a *engine.Ask, g lease.Grant) {
	if len(p.peeks) == 0 {
		return
	}
	capacity := a.Policy.Terms.Capacity
	left := min(g.Remaining+p.spare(now), capacity) - p.Value.relay.Account.Overdrawn
	sendPeeks(p.peeks, g, lease.Grant{Status: lease.OK, Limit: capacity, Remaining: max(0, left), Reset: g.Reset})
}

// sendPeeks answers peeks, or reports to them that the store did not decide.
func sendPeeks(peeks []waiter, g, answer lease.Grant) {
	if !decided(g) {
		answer = lease.Grant{Status: g.Status}
	}
	for _, w := range peeks {
		w.answers.answer(w.at, answer)
	}
}
