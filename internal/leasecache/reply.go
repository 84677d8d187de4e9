package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// reply applies the store's reply to an ask, and answers those who wait for it.
func (p *pending) reply(now lease.Millis, a *engine.Ask, g lease.Grant) {
	if p.Entry == nil {
		p.replyPassed(now, a, g)
		return
	}
	p.shard.Lock()
	defer p.shard.Unlock()
	v := &p.Value
	v.out--
	v.relay.Back -= p.back
	v.noteReply(now, g.Status, p.store.config.Jitter)
	switch {
	case a.Policy.Limit.Concurrent():
		p.replySlots(now, a, g)
	case a.Want.Want == 0 || a.Group != 0 && g.Status == lease.OK && g.Granted == 0:
		p.replyReport(now, a, g)
	default:
		p.replyWant(now, a, g)
	}
	p.answerWaiting(now)
	idle := a.Want.Want == 0 && v.relay.Holder.Spent+v.relay.Holder.Denied == 0 // it gave back what nobody used
	if p.Policy.Terms.Aggregator && !idle {
		p.topUp(now)
	}
	if v.passing.lasts(now) {
		v.unlease(&p.Policy.Terms, lease.Never)
	}
	p.reportBack(now)
}

// unavailablePause is for how long a store that did not answer is not asked for the key, give or take the jitter.
const unavailablePause lease.Millis = 110

// noteReply notes whether the store answered. When it did not, it is not asked for the key
// for a while.
func (c *cached) noteReply(now lease.Millis, s lease.Status, jitter func() lease.Percent) {
	if s != lease.Unavailable {
		c.replied, c.pause = now, 0
		return
	}
	c.pause = now + jitter().Of(unavailablePause)
}

// replyWant shares a grant among those who wait. The rest is the key's new lease. Behind the
// callers the store is asked again after a lease interval at the earliest: a lease that does not
// last as long is spent meanwhile, so the next one is larger. What is far away, or exact, is not
// asked in this way.
func (p *pending) replyWant(now lease.Millis, a *engine.Ask, g lease.Grant) {
	t := &a.Policy.Terms
	grants := make([]lease.Grant, len(p.queue))
	w := a.Want
	w.Debt = p.debt
	back := p.Value.relay.Apply(t, now, p.sent, w, g, p.store.config.Jitter(), wants(p.queue), grants)
	p.giveBack(now, back)
	p.peek(now, g, grants)
	if a.Group == 0 {
		grants = p.requeue(now, grants)
	}
	if !t.Aggregator && t.Consistency != lease.Exact {
		p.Value.askAt = now + p.store.config.Jitter().Of(t.Interval)
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
	account, t := &p.Value.relay.Holder, &a.Policy.Terms
	if a.Want.Want > 0 {
		account.Asking = false
	}
	left := g
	if decided(g) {
		account.Apply(t, now, p.sent, lease.Want{Overdrawn: a.Want.Overdrawn, Debt: p.debt}, g, 0, 100)
		if g.Status == lease.OK {
			left.Remaining += account.Available(now)
		}
	}
	grants := make([]lease.Grant, len(p.queue))
	for i := range grants {
		grants[i] = left
	}
	p.peek(now, g, grants)
	p.answer(now, grants)
}

func decided(g lease.Grant) bool { return g.Status == lease.OK || g.Status == lease.Denied }

// peek makes the grants of those in the queue who only read what is left: in the store, in the
// cache and on its way, less what has been admitted without a lease and is not reported yet.
func (p *pending) peek(now lease.Millis, g lease.Grant, grants []lease.Grant) {
	account, t := &p.Value.relay.Holder, &p.Policy.Terms
	for i, w := range p.queue {
		if w.want.Want > 0 {
			continue
		}
		grants[i] = lease.Grant{Status: g.Status}
		if decided(g) {
			left := min(g.Remaining+account.Held(t, now)+p.Value.relay.Back, t.Capacity) - account.Overdrawn
			grants[i] = lease.Grant{Status: lease.OK, Limit: t.Capacity, Remaining: max(0, left), Reset: g.Reset}
		}
	}
}

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
		k.giveBack(now, k.Value.relay.TakeBack(&k.Policy.Terms, now, holder.Part{Units: g.Granted, Lease: g.Lease}))
	}
}

// answerWaiting answers from the reply those who came while the ask was out. The store is asked for
// those who still wait.
func (k key) answerWaiting(now lease.Millis) {
	v := &k.Value
	waiting := v.waiting[:0]
	for _, w := range v.waiting {
		if w.answers.gone() {
			continue
		}
		g, verdict := k.decideAgain(now, w.want)
		switch {
		case verdict == holder.Wait && now >= v.pause:
			waiting = append(waiting, w)
			continue
		case verdict == holder.Wait:
			g = lease.Grant{Status: lease.Unavailable}
		}
		if !w.answers.answer(w.at, g) {
			k.takeBack(now, g)
		}
	}
	if v.keepWaiting(waiting); len(waiting) > 0 {
		k.schedule(now, waited)
	}
}

// decideAgain decides on a want that waits, of which nothing is left to settle.
func (k key) decideAgain(now lease.Millis, w lease.Want) (lease.Grant, holder.Verdict) {
	if w.Want == 0 {
		if g, ok := k.peeked(now, &k.Policy.Terms); ok {
			return g, holder.Admit
		}
		return lease.Grant{}, holder.Wait
	}
	g, verdict, _ := k.Value.relay.Acquire(&k.Policy.Terms, now, w)
	return g, verdict
}

// replySlots applies the reply to a request for slots.
func (p *pending) replySlots(now lease.Millis, a *engine.Ask, g lease.Grant) {
	p.Value.relay.Apply(slotTerms(a), now, p.sent, a.Want, g, 100, []lease.Want{a.Want}, make([]lease.Grant, 1))
	p.answerPassed(a, g)
}

// replyPassed applies the reply to an ask that was passed on as it is. What it has left of slots may
// end a denial.
func (p *pending) replyPassed(now lease.Millis, a *engine.Ask, g lease.Grant) {
	switch {
	case a.Policy.Limit.Concurrent():
		p.store.withEntry(a, func(k key) { k.Value.relay.DebtReplied(slotTerms(a), now, g) })
	case a.Op == engine.Reset && decided(g):
		p.store.withEntry(a, key.forgetDenial)
	case a.Want.Overdrawn > 0: // a debt
		p.store.withEntry(a, func(k key) {
			k.Value.noteReply(now, g.Status, p.store.config.Jitter)
			k.Value.relay.DebtReplied(&a.Policy.Terms, now, g)
		})
	case !a.Op.Operates():
		p.store.withEntry(a, func(k key) { k.replyPassing(now, a, g) })
	}
	p.answerPassed(a, g)
}

// forgetDenial forgets what the store rejected: its counter was reset.
func (k key) forgetDenial() {
	v := &k.Value
	v.relay.Forget()
	v.replied = 0
	if v.passing != nil {
		v.passing.reset = 0
	}
}

// answerPassed hands out the grant of an ask that was sent as it is. What was granted to a
// caller that has gone goes back: a holder of slots states anew what it has, a request
// does not.
func (p *pending) answerPassed(a *engine.Ask, g lease.Grant) {
	for _, w := range p.queue {
		if !w.answers.answer(w.at, g) && g.Granted > 0 && !a.Op.Operates() && (a.Holder == 0 || a.Op == engine.Take) {
			p.store.askSoon(a.GiveBack(&g))
		}
	}
}
