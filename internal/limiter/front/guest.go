package front

import (
	"cmp"
	"context"
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// A key is kept by one count: its leases, its denial and what is told to be left go by
// that. Where a request brings another one ([limiter.Policy.Beside]), it is a guest: the
// store decides on it, by the guest's count and exactly. What is on lease here goes back
// before that, or it would look used; so that nothing else is on its way then, the ask
// goes out alone, and others wait for its reply. A guest has a denial of its own, so that
// a flood of them is refused from memory.

// mostGuests is how many counts are remembered beside that of a key: more only make
// requests dearer.
const mostGuests = 8

// guests are the counts beside that by which a key is kept.
type guests struct {
	all   []*guest
	out   int          // asks of guests that are out
	turns uint64       // how often one was asked for
	asked lease.Millis // when one was asked for last
	// returning is how many asks are out that give back what was granted by another count
	// than the key's.
	returning int
}

// guest is one of them.
type guest struct {
	policy  *limiter.Policy
	node    lease.Relay // of an exact rule: it never holds a unit
	waiting []waiter    // for an ask
	turn    uint64      // number of its last ask among those of guests of the key
	used    lease.Millis
}

// visitMemory is how long after a guest's ask a key is asked for as that of an exact rule.
const visitMemory = lease.Millis(limit.Second / limit.Millisecond)

// pace is how often the key may be asked for: while guests send back what it has on lease,
// as often as that of an exact rule.
func (c *cached) pace(now lease.Millis, p *limiter.Policy) pace {
	if c.guests != nil && now < c.guests.asked+visitMemory {
		return pace{}
	}
	return paceOf(&p.Terms, p.Limit.Spec())
}

// visits reports whether a policy is not that by which a key is kept.
func visits(e *table.Entry[cached], p *limiter.Policy) bool {
	return p != e.Policy && p.Terms.Capacity != e.Policy.Terms.Capacity && p.Limit.Spec().Algorithm != limit.Concurrency
}

// keepBy makes a policy that by which a key is kept, if it goes before the one that is:
// what a rule says does, unless somebody waits for an answer by the other count.
func (s *Store) keepBy(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], p *limiter.Policy) {
	v := &e.Value
	switch {
	case !visits(e, p):
		if p.Beside != nil && e.Policy.Beside == nil {
			return
		}
	case p.Beside != nil || v.out > 0 || len(v.waiting) > 0 || v.guests.wait():
		return
	default:
		v.returnLots(&e.Policy.Terms, now)
		for i := range v.back {
			v.back[i] = v.back[i].grantedBy(cmp.Or(v.back[i].by, e.Policy)).to(p)
		}
		v.node.Account.Unlearn()
		v.guests, v.heard = nil, 0
		if len(v.back) > 0 {
			s.due.add(now, shard, e, report)
		}
	}
	e.Policy = p
}

// returnLots takes what is on lease, but for the next window, to be given back.
func (c *cached) returnLots(t *lease.Terms, now lease.Millis) {
	for i := range c.node.Account.Lots {
		if lot := &c.node.Account.Lots[i]; lot.Units > 0 && lot.From <= now && !lot.Local {
			c.keep(t, part{units: lot.Units, lease: lot.Lease})
			*lot = lease.Lot{}
		}
	}
}

// wait reports whether a guest waits for an ask.
func (g *guests) wait() bool { return g.next() != nil }

// next is the guest that is to be asked for next, in turns; nil: none waits.
func (g *guests) next() (next *guest) {
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

// guest finds what is remembered of a policy's count beside that of the key, or makes it
// in place of the one that was asked for longest ago.
func (c *cached) guest(now lease.Millis, p *limiter.Policy) *guest {
	if c.guests == nil {
		c.guests = new(guests)
	}
	g := c.guests
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
	one := &guest{policy: exact, used: now}
	if len(g.all) < mostGuests || oldest < 0 {
		g.all = append(g.all, one)
	} else {
		g.all[oldest] = one
	}
	return one
}

// denies reports whether a guest's ask is refused from memory, and with what; a question
// is if nothing is left.
func (g *guest) denies(now lease.Millis, w lease.Want) (lease.Grant, bool) {
	t := &g.policy.Terms
	if w.Want > 0 {
		grant, verdict, _ := g.node.Acquire(t, now, w)
		return grant, verdict == lease.Refuse
	}
	slot := &g.node.Account
	grant, _, _ := g.node.Acquire(t, now, w)
	return grant, slot.DeniedNeed == 1 && now < slot.NextAsk && now < slot.Reset
}

// settleGuest settles what a guest's ask reports, and says what is left by its count, as
// far as that is known here. What was granted by its count goes back to the store: put into
// a lease of the key it would be more than the key's own count.
func (c *call) settleGuest(shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask) lease.Grant {
	rest := c.returns(shard, e, a)
	told := reports(&rest)
	t := &e.Policy.Terms
	c.store.giveBack(c.now, shard, e, part{units: told.Want.Unused, lease: told.Want.Lease, by: a.Policy})
	told.Want.Unused = 0
	g, _, _ := e.Value.node.Acquire(t, c.now, told.Want)
	return e.Value.asGuest(&a.Policy.Terms, t, g)
}

// visit decides on a guest's ask: by its own denial, or it waits for the store.
func (c *call) visit(shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask, i int) {
	told := c.settleGuest(shard, e, a)
	if a.Want.Want == 0 && !a.Peeks() {
		c.grants[i] = told
		c.answered(lease.Admit)
		return
	}
	c.visitUntil(c.ends, c.expect, shard, e, a, i)
}

// visitUntil is visit for somebody who leaves at ends, when what it reports is settled.
func (c *call) visitUntil(ends lease.Millis, expect func(int) *reply, shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask, i int) {
	v := &e.Value
	g := v.guest(c.now, a.Policy)
	want := onlyAsk(a.Want)
	grant, denied := g.denies(c.now, want)
	v.charge(c.now, e.Policy, g)
	switch {
	case denied:
		c.grants[i] = grant
		c.answered(lease.Refuse)
		return
	case v.out == 0 && c.now < v.away:
		c.unavailable(i)
		return
	}
	g.waiting = append(g.waiting, waiter{want: want, reply: expect(i), at: i, ends: ends})
	if v.receives(e.Policy, false) {
		c.asking().visit(c.now, shard, e, g)
	}
}

// receives reports whether a guest may be asked for: when nothing of the key is out, and,
// unless it is their turn, nobody waits for its own asks. An exact rule has nothing on lease
// that could be on its way.
func (c *cached) receives(p *limiter.Policy, turn bool) bool {
	if p.Terms.Consistency == lease.Exact {
		return c.guests.out == 0
	}
	return c.out == 0 && (turn || len(c.waiting) == 0)
}

// charge moves what a guest was refused from memory to the key, where it is charged: it
// counts for all.
func (c *cached) charge(now lease.Millis, p *limiter.Policy, g *guest) {
	if p.Terms.ChargesDenied {
		c.node.Account.Deny(&p.Terms, now, g.node.Account.Denied)
		g.node.Account.Denied = 0
	}
}

// visit asks on behalf of a guest, and of all that came by the same count. First it gives
// back what is on lease here, and tells what there is to tell, by the key's own count: by a
// smaller one the store would not believe it. Then the guest is next.
func (b *batch) visit(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], g *guest) {
	v := &e.Value
	v.guests.out++
	v.guests.asked = now
	v.returnLots(&e.Policy.Terms, now)
	if v.owesOthers() {
		b.returnOthers(now, shard, e)
		b.members[len(b.members)-1].guest = g
		return
	}
	w, some := v.node.Account.Report(&e.Policy.Terms, now)
	if some || len(v.back) > 0 {
		b.add(now, shard, e, nil, w, 0)
		b.members[len(b.members)-1].guest = g
		return
	}
	queue, peeks := apart(g.waiting)
	g.waiting = nil
	if len(queue) > 0 {
		w = g.node.Ask(&g.policy.Terms, now, wants(queue), lease.NoAsk)
	} else {
		w, _ = g.node.Account.Report(&g.policy.Terms, now)
	}
	v.guests.turns++
	g.turn = v.guests.turns
	b.add(now, shard, e, queue, w, 0)
	b.asks[len(b.asks)-1].Policy = g.policy
	m := &b.members[len(b.members)-1]
	m.peeks, m.guest = peeks, g
}

// hear takes the answer to a guest's ask, or to the one before it. The shard is locked.
func (b *batch) hear(now lease.Millis, m *member, a *limiter.Ask, g lease.Grant) {
	s, e := b.store, m.entry
	v, t := &e.Value, &a.Policy.Terms
	v.guests.out--
	if a.Policy != m.guest.policy || m.other { // what goes before it
		b.report(now, m, a, g)
		return
	}
	grants := make([]lease.Grant, len(m.queue))
	jitter := lease.Millis(90 + rand.IntN(21))
	back := m.guest.node.Apply(t, now, m.sent, a.Want, g, jitter, wants(m.queue), grants)
	s.giveBack(now, m.shard, e, partOf(back).grantedBy(m.guest.policy))
	if decided(g) {
		v.node.Account.Overhear(&e.Policy.Terms, t, now, g)
		v.charge(now, e.Policy, m.guest)
		if g.Remaining == 0 {
			v.heard = 0 // how much more is left by the key's own count is not known
		}
	}
	m.answer(s, now, grants)
	told := lease.Grant{Status: g.Status}
	if decided(g) {
		told = lease.Grant{Status: lease.OK, Limit: t.Capacity, Remaining: g.Remaining, Reset: g.Reset}
	}
	for _, w := range m.peeks {
		w.reply.answer(w.at, told)
	}
}

// visited reports whether the key is not to be asked for, because what it has on lease is
// on its way back with a guest's ask.
func (c *cached) visited(p *limiter.Policy) bool {
	return c.guests != nil && (c.guests.returning > 0 || c.guests.out > 0 && p.Terms.Consistency != lease.Exact)
}

// inviteGuests asks for a guest that waits, if it may be asked for. After one of the key's
// own asks it is their turn.
func (s *Store) inviteGuests(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], own bool) {
	v := &e.Value
	g := v.guests.next()
	if g == nil || !v.receives(e.Policy, own) {
		return
	}
	kept := g.waiting[:0]
	for _, w := range g.waiting {
		if !w.reply.gone() {
			kept = append(kept, w)
		}
	}
	g.waiting = kept
	if len(kept) == 0 {
		s.inviteGuests(now, shard, e, own)
		return
	}
	if now < v.away {
		for _, w := range kept {
			w.reply.answer(w.at, lease.Grant{Status: lease.Unavailable})
		}
		g.waiting = nil
		s.inviteGuests(now, shard, e, own)
		return
	}
	b := s.newBatch()
	b.visit(now, shard, e, g)
	s.out.Go(func() { b.run(context.Background()) })
}

// asGuest words what a key tells in a guest's count. By a larger one than the key's, nothing
// is known of a key that has nothing left.
func (c *cached) asGuest(t, host *lease.Terms, g lease.Grant) lease.Grant {
	g.Limit = t.Capacity
	switch {
	case g.Remaining > 0:
		g.Remaining = max(0, g.Remaining+t.Capacity-host.Capacity)
	case t.Capacity > host.Capacity && c.node.Account.Overdrawn == 0:
		g.Remaining, g.Reset = t.Capacity, 0
	}
	return g
}
