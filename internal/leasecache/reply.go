package leasecache

import (
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// reply applies the store's reply to an ask, and answers those who wait for it.
func (p *pending) reply(now lease.Millis, a *engine.Ask, g lease.Grant) {
	switch {
	case p.owed != nil:
		p.owed.reply(now, p.store, a, g)
		return
	case p.Entry == nil:
		p.replyPassed(now, a, g)
		return
	}
	p.shard.Lock()
	defer p.shard.Unlock()
	v := &p.Value
	v.out--
	v.relay.Back -= p.back
	v.noteReply(now, g.Status)
	v.exact.learn(now, p.sent, a, g, !p.exact && a.Want.Want > 0)
	switch {
	case p.exact:
		p.replyExact(now, a, g)
	case a.Policy.Limit.Spec().Algorithm == limit.Concurrency:
		v.learnSlots(now, a, g)
		p.answerPassed(a, g)
	case a.Want.Want == 0 || a.Group != 0 && g.Status == lease.OK && g.Granted == 0:
		p.replyReport(now, a, g)
	default:
		p.replyWant(now, a, g)
	}
	p.answerPeeks(now, a, g)
	p.answerWaiting(now)
	idle := a.Want.Want == 0 && v.relay.Account.Spent+v.relay.Account.Denied == 0 // it gave back what nobody used
	if p.Policy.Terms.Far && !idle {
		p.topUp(now)
	}
	p.resumeExact(now)
	if len(v.back) > 0 {
		p.schedule(now, report)
	}
}

// noteReply notes whether the store answered. When it did not, it is not asked for the key
// for 100 ms or a little longer.
func (c *cached) noteReply(now lease.Millis, s lease.Status) {
	if s != lease.Unavailable {
		c.replied, c.pause = now, 0
		return
	}
	c.pause = now + 100 + lease.Millis(rand.IntN(21))
}

// jitter is the factor of a pause, in percent, that keeps replicas from asking in step.
func jitter() lease.Millis { return lease.Millis(90 + rand.IntN(21)) }

// replyWant shares a grant among those who wait. The rest is the key's new lease.
func (p *pending) replyWant(now lease.Millis, a *engine.Ask, g lease.Grant) {
	grants := make([]lease.Grant, len(p.queue))
	w := a.Want
	w.Debt = p.debt
	back := p.Value.relay.Apply(&a.Policy.Terms, now, p.sent, w, g, jitter(), wants(p.queue), grants)
	p.giveBack(now, partOf(back))
	if a.Group == 0 {
		grants = p.requeue(now, grants)
	}
	p.answer(now, grants)
}

// requeue puts a waiter back in the queue that was denied, but fits into what is left in the
// store and what the relay has yet to give back: that was more leases than go with one ask. It
// returns the grants of the others.
func (p *pending) requeue(now lease.Millis, grants []lease.Grant) []lease.Grant {
	v, t := &p.Value, &p.Policy.Terms
	queue, rest := p.queue[:0], grants[:0]
	for i, w := range p.queue {
		if grants[i].Status == lease.Denied && v.relay.Retries(t, now, w.want) {
			v.waiting = append(v.waiting, w)
			continue
		}
		queue, rest = append(queue, w), append(rest, grants[i])
	}
	p.queue = queue
	return rest
}

// replyReport applies the reply to an ask that was granted nothing: because it only
// reported something, or because another one of its group was denied.
func (p *pending) replyReport(now lease.Millis, a *engine.Ask, g lease.Grant) {
	account, t := &p.Value.relay.Account, &a.Policy.Terms
	if a.Want.Want > 0 {
		account.Asking = false
	}
	if !decided(g) {
		p.answer(now, []lease.Grant{g}[:len(p.queue)])
		return
	}
	account.Apply(t, now, p.sent, lease.Want{Overdrawn: a.Want.Overdrawn, Debt: p.debt}, g, 0, 100)
	if p.back > 0 {
		account.Freed(g)
	}
	if len(p.queue) > 0 {
		if g.Status == lease.OK {
			g.Remaining += account.Available(now)
		}
		p.answer(now, []lease.Grant{g})
	}
}

func decided(g lease.Grant) bool { return g.Status == lease.OK || g.Status == lease.Denied }

// answer hands out grants. What was granted to a caller that has gone goes back to the
// relay.
func (p *pending) answer(now lease.Millis, grants []lease.Grant) {
	for i, w := range p.queue {
		if !w.answers.answer(w.at, grants[i]) {
			p.takeBack(now, grants[i])
		}
	}
}

// takeBack settles a grant that no caller received.
func (k key) takeBack(now lease.Millis, g lease.Grant) {
	if g.Granted > 0 {
		k.giveBack(now, partOf(k.Value.relay.TakeBack(&k.Policy.Terms, now, lease.Part{Units: g.Granted, Lease: g.Lease})))
	}
}

// answerWaiting answers from the reply those who came while the ask was out. Those who
// still wait go on the agenda, if there is time for that.
func (k key) answerWaiting(now lease.Millis) {
	v := &k.Value
	waiting := v.waiting[:0]
	for _, w := range v.waiting {
		if w.answers.gone() {
			continue
		}
		g, verdict := k.decideAgain(now, w.want)
		if verdict == lease.Wait {
			delay := k.asksIn(now, w.want.Need)
			switch {
			case now < v.pause:
				g = lease.Grant{Status: lease.Unavailable}
			case v.out == 0 && k.store.tooLate(now, delay, w.ends):
				g = k.outOfTime(now, w.want.Need, delay)
			default:
				waiting = append(waiting, w)
				continue
			}
		}
		if !w.answers.answer(w.at, g) {
			k.takeBack(now, g)
		}
	}
	clear(v.waiting[len(waiting):])
	if v.waiting = waiting; len(waiting) > 0 {
		k.schedule(now, waited)
	}
}

// decideAgain decides on a want that waits, of which nothing is left to settle.
func (k key) decideAgain(now lease.Millis, w lease.Want) (lease.Grant, lease.Verdict) {
	if w.Want == 0 && !k.answersPeek(now, k.Policy) {
		return lease.Grant{}, lease.Wait
	}
	g, verdict, _ := k.Value.relay.Acquire(&k.Policy.Terms, now, w)
	return g, verdict
}

// replyPassed applies the reply to an ask that was passed on as it is.
func (p *pending) replyPassed(now lease.Millis, a *engine.Ask, g lease.Grant) {
	if a.Policy.Limit.Spec().Algorithm == limit.Concurrency {
		p.store.withEntry(a, func(k key) { k.Value.learnSlots(now, a, g) })
	}
	p.answerPassed(a, g)
}

// answerPassed hands out the grant of an ask that was sent as it is. What was granted to a
// caller that has gone goes back: a holder of slots states anew what it has, a request
// does not.
func (p *pending) answerPassed(a *engine.Ask, g lease.Grant) {
	for _, w := range p.queue {
		if !w.answers.answer(w.at, g) && g.Granted > 0 && (a.Holder == 0 || a.Op == engine.Take) {
			p.store.due.addAsk(a.GiveBack(&g))
		}
	}
}
