package front

import (
	"cmp"
	"context"
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// A key has one policy of its own. Its leases, its denial and the units that it reports to be left go
// by the count of that policy. A request that brings another count ([engine.Policy.Beside]) overrides
// it for itself: the store decides, by the request's count and as for an exact rule. What is on lease
// in the cache goes back first, or it would look used. So that nothing else is on its way then, the
// ask goes out alone, and others wait for its reply. Each override has a denial of its own, so that a
// flood of its requests is refused from memory.

// mostOverrides is how many counts are remembered beside that of a key: more only make
// requests dearer.
const mostOverrides = 8

// overrides are the counts of requests beside that of a key itself.
type overrides struct {
	all   []*override
	out   int          // asks of overrides that are out
	turns uint64       // how often one was asked for
	asked lease.Millis // when one was asked for last
	// returning is how many asks are out that give back what was granted by another count
	// than the key's.
	returning int
}

// override is one of them.
type override struct {
	policy  *engine.Policy
	relay   lease.Relay // of an exact rule: it never holds a unit
	waiting []waiter    // for an ask
	turn    uint64      // number of its last ask among those of overrides of the key
	used    lease.Millis
}

// overrideMemory is how long after an override's ask a key is asked for as that of an exact
// rule.
const overrideMemory = lease.Millis(limit.Second / limit.Millisecond)

// isOverride reports whether a policy has another count than the key itself.
func (k key) isOverride(p *engine.Policy) bool {
	return p != k.Policy && p.Terms.Capacity != k.Policy.Terms.Capacity && p.Limit.Spec().Algorithm != limit.Concurrency
}

// adopt makes a policy that of the key, if it goes before the one that is: a rule's own
// count does, unless somebody waits for an answer by the other count.
func (k key) adopt(now lease.Millis, p *engine.Policy) {
	v := &k.Value
	switch {
	case !k.isOverride(p):
		if p.Beside != nil && k.Policy.Beside == nil {
			return
		}
	case p.Beside != nil || v.out > 0 || len(v.waiting) > 0 || v.overrides.wait():
		return
	default:
		v.unlease(&k.Policy.Terms, now)
		for i := range v.back {
			v.back[i] = v.back[i].to(p, cmp.Or(v.back[i].by, k.Policy))
		}
		v.relay.Account.Unlearn()
		v.overrides, v.replied = nil, 0
		if len(v.back) > 0 {
			k.schedule(now, report)
		}
	}
	k.Policy = p
}

// wait reports whether an override waits for an ask.
func (g *overrides) wait() bool { return g.next() != nil }

// next is the override that is to be asked for next, in turns; nil: none waits.
func (g *overrides) next() (next *override) {
	if g == nil {
		return nil
	}
	for _, one := range g.all {
		if len(one.waiting) > 0 && (next == nil || one.turn < next.turn) {
			next = one
		}
	}
	return next
}

// override finds what is remembered of a policy's count beside that of the key, or makes it
// in place of the one that was used longest ago.
func (c *cached) override(now lease.Millis, p *engine.Policy) *override {
	if c.overrides == nil {
		c.overrides = new(overrides)
	}
	g := c.overrides
	oldest := -1
	for i, one := range g.all {
		if one.policy.Terms.Capacity == p.Terms.Capacity {
			one.used = now
			return one
		}
		if len(one.waiting) == 0 && (oldest < 0 || one.used < g.all[oldest].used) {
			oldest = i
		}
	}
	exact := p.Beside
	if exact == nil { // of a rule that has just changed
		exact = p.Exactly()
	}
	one := &override{policy: exact, used: now}
	if len(g.all) < mostOverrides || oldest < 0 {
		g.all = append(g.all, one)
	} else {
		g.all[oldest] = one
	}
	return one
}

// denies reports whether an override's ask is refused from memory, and with what; a peek is if
// nothing is left.
func (g *override) denies(now lease.Millis, w lease.Want) (lease.Grant, bool) {
	account := &g.relay.Account
	grant, verdict, _ := g.relay.Acquire(&g.policy.Terms, now, w)
	if w.Want > 0 {
		return grant, verdict == lease.Refuse
	}
	return grant, account.DeniedNeed == 1 && now < account.NextAsk && now < account.Reset
}

// override decides on the ask of an override: by its own denial, or it waits for the store.
func (q *acquisition) override(k key, a *engine.Ask, i int) {
	left := q.settleOverride(k, a)
	if a.Want.Want == 0 && !a.Peeks() {
		q.grants[i] = left
		q.answered(lease.Admit)
		return
	}
	q.waitForOverride(k, a, i, atEnd)
}

// settleOverride settles what an override's ask reports. It returns what is left by its
// count, as far as the cache can see. What was granted by its count goes back to the store: put into
// a lease of the key it would be more than the key's count.
func (q *acquisition) settleOverride(k key, a *engine.Ask) lease.Grant {
	w := reportOf(a).Want
	k.giveBack(q.now, part{units: w.Unused, lease: w.Lease, by: a.Policy})
	w.Unused = 0
	g, _, _ := k.Value.relay.Acquire(&k.Policy.Terms, q.now, w)
	return k.leftByCount(&a.Policy.Terms, g)
}

// leftByCount changes what a key has left by its own count to an override's count. If
// nothing is left by that, a larger count may still have units.
func (k key) leftByCount(t *lease.Terms, g lease.Grant) lease.Grant {
	g.Limit = t.Capacity
	more := t.Capacity - k.Policy.Terms.Capacity
	switch {
	case g.Remaining > 0:
		g.Remaining = max(0, g.Remaining+more)
	case more > 0 && k.Value.relay.Account.Overdrawn == 0:
		g.Remaining, g.Reset = t.Capacity, 0
	}
	return g
}

// waitForOverride refuses an override's ask, whose report is settled, from memory, or lets
// it wait.
func (q *acquisition) waitForOverride(k key, a *engine.Ask, i int, by stage) {
	v := &k.Value
	g := v.override(q.now, a.Policy)
	want := onlyAsk(a.Want)
	grant, denied := g.denies(q.now, want)
	k.charge(q.now, g)
	switch {
	case denied:
		q.grants[i] = grant
		q.answered(lease.Refuse)
		return
	case v.out == 0 && q.now < v.pause:
		q.unavailable(i)
		return
	}
	g.waiting = append(g.waiting, waiter{want: want, answers: q.await(i, by), at: i, ends: q.deadline(by)})
	if k.mayAskByOverride(false) {
		q.asking().askByOverride(q.now, k, g)
	}
}

// mayAskByOverride reports whether the store may be asked for an override: when nothing of the
// key is out, and, unless it is the overrides' turn, nobody waits for the key's own asks. An
// exact rule has nothing on lease that could be on its way.
func (k key) mayAskByOverride(turn bool) bool {
	v := &k.Value
	if k.Policy.Terms.Consistency == lease.Exact {
		return v.overrides.out == 0
	}
	return v.out == 0 && (turn || len(v.waiting) == 0)
}

// overrideIsOut reports whether the key is not to be asked for, because what it has on lease is
// on its way back with an override's ask.
func (k key) overrideIsOut() bool {
	g := k.Value.overrides
	return g != nil && (g.returning > 0 || g.out > 0 && k.Policy.Terms.Consistency != lease.Exact)
}

// charge moves what an override was refused from memory to the key, where it is charged: it
// counts for all.
func (k key) charge(now lease.Millis, g *override) {
	if t := &k.Policy.Terms; t.ChargesDenied {
		k.Value.relay.Account.Deny(t, now, g.relay.Account.Denied)
		g.relay.Account.Denied = 0
	}
}

// askByOverride asks on behalf of an override, and of all that came by the same count. If there
// are leases to give back, or anything to report, that goes first, by the key's own count:
// the store would not accept more than a smaller one can have granted. Then it is the override's turn.
func (b *batch) askByOverride(now lease.Millis, k key, g *override) {
	v := &k.Value
	v.overrides.out++
	v.overrides.asked = now
	v.unlease(&k.Policy.Terms, now)
	if v.owesOthers() {
		b.returnOthers(now, k).override = g
		return
	}
	w, some := v.relay.Account.Report(&k.Policy.Terms, now)
	if some || len(v.back) > 0 {
		b.add(now, k, nil, w, 0).override = g
		return
	}
	queue, peeks := splitPeeks(g.waiting)
	g.waiting = nil
	g.relay.Account.Replicas = k.store.beside()
	if len(queue) > 0 {
		w = g.relay.Ask(&g.policy.Terms, now, wants(queue), lease.NoAsk)
	} else {
		w, _ = g.relay.Account.Report(&g.policy.Terms, now)
	}
	v.overrides.turns++
	g.turn = v.overrides.turns
	p := b.add(now, k, queue, w, 0)
	p.peeks, p.override = peeks, g
	b.asks[len(b.asks)-1].Policy = g.policy
}

// replyOverride applies the reply to an override's ask, or to the one before it. The shard is
// locked.
func (p *pending) replyOverride(now lease.Millis, a *engine.Ask, g lease.Grant) {
	v, t := &p.Value, &a.Policy.Terms
	v.overrides.out--
	if a.Policy != p.override.policy || p.other { // it goes before the override's
		p.replyReport(now, a, g)
		return
	}
	grants := make([]lease.Grant, len(p.queue))
	back := partOf(p.override.relay.Apply(t, now, p.sent, a.Want, g, jitter(), wants(p.queue), grants))
	back.by = p.override.policy
	p.giveBack(now, back)
	if decided(g) {
		v.relay.Account.LearnFrom(&p.Policy.Terms, t, now, g)
		p.charge(now, p.override)
		if g.Remaining == 0 {
			v.replied = 0 // how much more is left by the key's count is unknown
		}
	}
	p.answer(now, grants)
	sendPeeks(p.peeks, g, lease.Grant{Status: lease.OK, Limit: t.Capacity, Remaining: g.Remaining, Reset: g.Reset})
}

// askByOverrides asks for an override that waits, if the store may be asked for it. After one of
// the key's own asks it is the overrides' turn.
func (k key) askByOverrides(now lease.Millis, turn bool) {
	v := &k.Value
	for g := v.overrides.next(); g != nil && k.mayAskByOverride(turn); g = v.overrides.next() {
		g.waiting = slices.DeleteFunc(g.waiting, func(w waiter) bool { return w.answers.gone() })
		switch {
		case len(g.waiting) == 0:
		case now < v.pause:
			for _, w := range g.waiting {
				w.answers.answer(w.at, lease.Grant{Status: lease.Unavailable})
			}
			g.waiting = nil
		default:
			b := k.store.newBatch()
			b.askByOverride(now, k, g)
			k.store.out.Go(func() { b.run(context.Background()) })
			return
		}
	}
}
