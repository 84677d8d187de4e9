package front

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// batch is asks that are sent to the store at once: each in a call of its own, or
// with its group. Keys live on different nodes, of which one may hang: a call ends
// when all of it is decided, and who waits for one key must not wait for another.
// Until it runs a batch belongs to one goroutine at a time.
type batch struct {
	store    *Store
	asks     []limiter.Ask
	members  []member
	patience time.Duration // how long a group may take; single keys may take the store's timeout
}

// member is what becomes of one ask's grant.
type member struct {
	shard *table.Shard[cached]
	entry *table.Entry[cached] // nil: the ask was passed on as it is
	sent  lease.Millis
	queue []waiter // who is answered, in order
	debt  uint64   // of the node itself, by its own count
	back  int64    // units that were to go back and do so with it, beside the slot's own
	owed  *owed    // a debt of a caller that was passed on; nil: none
	peeks []waiter // who only wants to know what is left
	guest *guest   // by whose count it was asked; nil: by that of the key
	other bool     // it gives back what was granted by another count
}

func (s *Store) newBatch() *batch {
	s.open.Add(1)
	return &batch{store: s, patience: s.timeout}
}

// close says that a batch is answered, or will not be sent.
func (b *batch) close() { b.store.open.Add(-1) }

// ask asks for a key on behalf of those who wait, or of the node itself. What was granted
// by another count goes back first, and they go on waiting. The shard is locked.
func (b *batch) ask(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], queue []waiter, behind lease.Asks, group uint32) {
	if group == 0 && e.Value.owesOthers() {
		e.Value.waiting = append(e.Value.waiting, queue...)
		b.returnOthers(now, shard, e)
		return
	}
	queue, peeks := apart(queue)
	var w lease.Want
	if len(queue) > 0 || len(peeks) == 0 {
		w = e.Value.node.Ask(&e.Policy.Terms, now, wants(queue), behind)
	} else { // what goes back with a question is left when it is answered
		w, _ = e.Value.node.Account.Report(&e.Policy.Terms, now)
	}
	b.add(now, shard, e, queue, w, group)
	b.members[len(b.members)-1].peeks = peeks
}

func (b *batch) add(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], queue []waiter, w lease.Want, group uint32) {
	e.Value.out++
	e.Value.budget.take(now, e.Value.pace(now, e.Policy))
	debt := w.Debt
	w.Debt = limiter.DebtID(b.store.id[:], debt)
	a := limiter.Ask{Policy: e.Policy, Key: e.Key(), Group: group, Want: w}
	back := e.Value.attach(&a)
	b.asks = append(b.asks, a)
	b.members = append(b.members, member{shard: shard, entry: e, sent: now, queue: queue, debt: debt, back: back})
}

// pass takes an ask as it is, but for its key, which is the caller's and may be
// needed for longer than the caller stays.
func (b *batch) pass(a *limiter.Ask, w waiter) {
	b.asks = append(b.asks, *a)
	b.asks[len(b.asks)-1].Key = bytes.Clone(a.Key)
	b.members = append(b.members, member{queue: []waiter{w}})
}

// say sends an ask for whose answer nobody waits.
func (b *batch) say(a limiter.Ask) {
	b.asks = append(b.asks, a)
	b.members = append(b.members, member{})
}

// run asks the store, hands out what comes as it comes, and returns when all has.
func (b *batch) run(ctx context.Context) {
	defer b.close()
	b.store.asked.Add(uint64(len(b.asks)))
	ctx, cancel := context.WithTimeout(ctx, b.store.timeout)
	defer cancel()
	var calls sync.WaitGroup
	for first, next := 0, 0; next < len(b.asks); first = next {
		next = first + limiter.GroupLen(b.asks[first:])
		if next == len(b.asks) { // the last one, or the only
			b.decide(ctx, first, next)
		} else {
			calls.Go(func() { b.decide(ctx, first, next) })
		}
	}
	calls.Wait()
}

// decide makes one call of the store, and applies the answers.
func (b *batch) decide(ctx context.Context, first, next int) []lease.Grant {
	if next-first > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.patience)
		defer cancel()
	}
	grants := make([]lease.Grant, next-first)
	b.store.behind.Acquire(ctx, b.asks[first:next], grants)
	now := b.store.now()
	for i := range grants {
		b.apply(now, &b.members[first+i], &b.asks[first+i], grants[i])
	}
	return grants
}

func (b *batch) apply(now lease.Millis, m *member, a *limiter.Ask, g lease.Grant) {
	if m.owed != nil {
		b.store.heardOfDebt(now, a, g)
		m.owed.answer(g)
		return
	}
	if m.entry == nil {
		if a.Policy.Limit.Spec().Algorithm == limit.Concurrency {
			b.store.withEntry(a, func(_ *table.Shard[cached], e *table.Entry[cached]) { e.Value.learnSlots(now, a, g) })
		} else {
			b.store.noteDenied(now, a, g)
		}
		m.hand(b.store, a, g)
		return
	}
	m.shard.Lock()
	defer m.shard.Unlock()
	s, e := b.store, m.entry
	e.Value.out--
	e.Value.node.Back -= m.back
	e.Value.hear(now, g)
	if m.other {
		e.Value.guests.returning--
	}
	switch {
	case m.guest != nil:
		b.hear(now, m, a, g)
	case a.Policy.Limit.Spec().Algorithm == limit.Concurrency:
		e.Value.learnSlots(now, a, g)
		m.hand(s, a, g)
	case a.Want.Want == 0 || a.Group != 0 && g.Status == lease.OK && g.Granted == 0:
		b.report(now, m, a, g)
	default:
		t := &a.Policy.Terms
		grants := make([]lease.Grant, len(m.queue))
		jitter := lease.Millis(90 + rand.IntN(21))
		w := a.Want
		w.Debt = m.debt
		back := e.Value.node.Apply(t, now, m.sent, w, g, jitter, wants(m.queue), grants)
		s.giveBack(now, m.shard, e, partOf(back))
		if a.Group == 0 {
			grants = m.retries(now, grants)
		}
		m.answer(s, now, grants)
	}
	if m.guest == nil {
		m.tell(now, a, g)
	}
	s.retry(now, m.shard, e)
	s.inviteGuests(now, m.shard, e, m.guest == nil || a.Policy != m.guest.policy)
	if len(e.Value.back) > 0 {
		s.due.add(now, m.shard, e, report)
	}
}

// report applies the reply to an ask of which only what it reports was heard: it
// asked for nothing, or another one of its group was denied.
func (b *batch) report(now lease.Millis, m *member, a *limiter.Ask, g lease.Grant) {
	slot, t := &m.entry.Value.node.Account, &a.Policy.Terms
	if visits(m.entry, a.Policy) {
		if decided(g) {
			slot.Overhear(&m.entry.Policy.Terms, t, now, g)
		}
		return
	}
	if a.Want.Want > 0 {
		slot.Asking = false
	}
	if !decided(g) {
		m.answer(b.store, now, []lease.Grant{g}[:len(m.queue)])
		return
	}
	slot.Apply(t, now, m.sent, lease.Want{Overdrawn: a.Want.Overdrawn, Debt: m.debt}, g, 0, 100)
	if len(a.Returned) > 0 {
		slot.Freed(g)
	}
	if len(m.queue) > 0 {
		if g.Status == lease.OK {
			g.Remaining += slot.Available(now)
		}
		m.answer(b.store, now, []lease.Grant{g})
	}
}

// retries puts those back in line who were denied and fit into what is left above and
// what the node has yet to give back, which was more leases than go with one ask. It
// returns the grants of the others.
func (m *member) retries(now lease.Millis, grants []lease.Grant) []lease.Grant {
	c, t := &m.entry.Value, &m.entry.Policy.Terms
	queue, rest := m.queue[:0], grants[:0]
	for i, w := range m.queue {
		if grants[i].Status == lease.Denied && c.node.Retries(t, now, w.want) {
			c.waiting = append(c.waiting, w)
			continue
		}
		queue, rest = append(queue, w), append(rest, grants[i])
	}
	m.queue = queue
	return rest
}

// hear notes whether the store answered. When it did not, it is left alone for a
// lease interval, give or take a tenth.
func (c *cached) hear(now lease.Millis, g lease.Grant) {
	if g.Status != lease.Unavailable {
		c.heard, c.away = now, 0
		return
	}
	c.away = now + lease.DefaultInterval + lease.Millis(rand.IntN(21))
}

// answer hands out grants; what nobody is there to take goes back to the node.
func (m *member) answer(s *Store, now lease.Millis, grants []lease.Grant) {
	by := m.entry.Policy
	if m.guest != nil {
		by = m.guest.policy
	}
	for i, w := range m.queue {
		if !w.reply.answer(w.at, grants[i]) {
			s.takeBack(now, m.shard, m.entry, by, grants[i])
		}
	}
}

// takeBack settles a grant by a policy's count that nobody received.
func (s *Store) takeBack(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], by *limiter.Policy, g lease.Grant) {
	if g.Granted == 0 {
		return
	}
	if visits(e, by) {
		s.giveBack(now, shard, e, part{units: g.Granted, lease: g.Lease, by: by})
		return
	}
	back := e.Value.node.TakeBack(&e.Policy.Terms, now, lease.Part{Units: g.Granted, Lease: g.Lease})
	s.giveBack(now, shard, e, partOf(back))
}

// hand hands out the grant of an ask that was passed on as it is.
func (m *member) hand(s *Store, a *limiter.Ask, g lease.Grant) {
	for _, w := range m.queue {
		if !w.reply.answer(w.at, g) {
			s.untake(a, g)
		}
	}
}

// untake gives back what an ask was granted that was passed on as it is, and whose
// caller has left. A holder of slots states anew what it has; a request does not.
func (s *Store) untake(a *limiter.Ask, g lease.Grant) {
	switch {
	case g.Granted == 0:
	case a.Policy.Limit.Spec().Algorithm != limit.Concurrency:
		s.due.giveBack(a, g)
	case a.Op == limiter.Take:
		s.due.say(limiter.Ask{Policy: a.Policy, Key: a.Key, Op: limiter.Release, Holder: a.Holder})
	}
}

// retry answers those who came while an ask was out from what it brought. Who
// still waits goes on the agenda, if there is time for that.
func (s *Store) retry(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached]) {
	waiting := e.Value.waiting[:0]
	for _, w := range e.Value.waiting {
		if w.reply.gone() {
			continue
		}
		g, verdict := e.Value.again(now, e.Policy, w.want)
		if verdict == lease.Wait {
			delay := e.Value.asksIn(now, e.Policy, w.want.Need)
			switch {
			case now < e.Value.away:
				g = lease.Grant{Status: lease.Unavailable}
			case e.Value.out == 0 && tooLate(now, delay, w.ends):
				g = e.Value.hurried(now, e.Policy, w.want.Need, delay)
			default:
				waiting = append(waiting, w)
				continue
			}
		}
		if !w.reply.answer(w.at, g) {
			s.takeBack(now, shard, e, e.Policy, g)
		}
	}
	clear(e.Value.waiting[len(waiting):])
	if e.Value.waiting = waiting; len(waiting) > 0 {
		s.due.add(now, shard, e, waited)
	}
}

// again decides on a want that waits, of which nothing is left to settle.
func (c *cached) again(now lease.Millis, p *limiter.Policy, w lease.Want) (lease.Grant, lease.Verdict) {
	if w.Want == 0 && !c.knows(now, p) {
		return lease.Grant{}, lease.Wait
	}
	g, verdict, _ := c.node.Acquire(&p.Terms, now, w)
	return g, verdict
}

func wants(queue []waiter) []lease.Want {
	out := make([]lease.Want, len(queue))
	for i := range queue {
		out[i] = queue[i].want
	}
	return out
}
