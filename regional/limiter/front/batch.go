package front

import (
	"context"
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/table"
)

// batch is one call of the store. It belongs to one goroutine.
type batch struct {
	store   *Store
	asks    []limiter.Ask
	grants  []lease.Grant
	members []member
}

// member is what becomes of one ask's grant.
type member struct {
	shard *table.Shard[cached]
	entry *table.Entry[cached] // nil: the ask was passed on as it is
	sent  lease.Millis
	queue []waiter // who is answered, in order
}

// ask asks for a key on behalf of those who wait, or of the node itself. The
// shard is locked.
func (b *batch) ask(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], queue []waiter, behind lease.Asks, group uint32) {
	w := e.Value.node.Ask(&e.Policy.Terms, now, wants(queue), behind)
	b.add(now, shard, e, queue, w, group)
}

func (b *batch) add(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], queue []waiter, w lease.Want, group uint32) {
	e.Value.out++
	b.asks = append(b.asks, limiter.Ask{Policy: e.Policy, Key: e.Key(), Group: group, Want: w})
	b.members = append(b.members, member{shard: shard, entry: e, sent: now, queue: queue})
}

// pass takes an ask as it is.
func (b *batch) pass(a *limiter.Ask, w waiter) {
	b.asks = append(b.asks, *a)
	b.members = append(b.members, member{queue: []waiter{w}})
}

// returns gives back units that no node holds any more. Nobody waits for it.
func (b *batch) returns(r giveBack) {
	b.asks = append(b.asks, limiter.Ask{Policy: r.policy, Key: r.key, Want: lease.Want{Unused: r.part.Units, Lease: r.part.Lease}})
	b.members = append(b.members, member{})
}

// run asks the store and hands out what comes.
func (b *batch) run(ctx context.Context) {
	if len(b.asks) == 0 {
		return
	}
	b.store.asked.Add(uint64(len(b.asks)))
	b.grants = make([]lease.Grant, len(b.asks))
	b.store.behind.Acquire(ctx, b.asks, b.grants)
	now := b.store.now()
	for i := range b.members {
		b.apply(now, &b.members[i], &b.asks[i], b.grants[i])
	}
}

func (b *batch) apply(now lease.Millis, m *member, a *limiter.Ask, g lease.Grant) {
	if m.entry == nil {
		for _, w := range m.queue {
			w.reply.answer(w.at, g)
		}
		return
	}
	m.shard.Lock()
	defer m.shard.Unlock()
	e, node, t := m.entry, &m.entry.Value.node, &a.Policy.Terms
	e.Value.out--
	if a.Group != 0 && g.Status == lease.OK && g.Granted == 0 && a.Want.Want > 0 {
		// Another one of the group was denied: of this one was heard what it
		// reports, and nothing is known.
		node.Slot.Asking = false
		node.Slot.Apply(t, now, m.sent, lease.Want{Overdrawn: a.Want.Overdrawn}, g, 0, 100)
		m.answer(b.store, now, e, []lease.Grant{g})
	} else {
		grants := make([]lease.Grant, len(m.queue))
		jitter := lease.Millis(90 + rand.IntN(21))
		if back := node.Apply(t, now, m.sent, a.Want, g, jitter, wants(m.queue), grants); back.Units > 0 {
			b.store.due.giveBack(e, back)
		}
		m.answer(b.store, now, e, grants)
	}
	b.store.retry(now, m.shard, e)
}

// answer hands out grants; what nobody is there to take goes back to the node.
func (m *member) answer(s *Store, now lease.Millis, e *table.Entry[cached], grants []lease.Grant) {
	for i, w := range m.queue {
		if !w.reply.answer(w.at, grants[i]) {
			s.takeBack(now, e, grants[i])
		}
	}
}

// takeBack settles a grant that nobody received.
func (s *Store) takeBack(now lease.Millis, e *table.Entry[cached], g lease.Grant) {
	if g.Granted == 0 {
		return
	}
	_, _, back := e.Value.node.Acquire(&e.Policy.Terms, now, lease.Want{Unused: g.Granted, Lease: g.Lease})
	if back.Units > 0 {
		s.due.giveBack(e, back)
	}
}

// retry answers those who came while an ask was out from what it brought. Who
// still waits goes on the agenda.
func (s *Store) retry(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached]) {
	waiting := e.Value.waiting[:0]
	for _, w := range e.Value.waiting {
		if w.reply.gone() {
			continue
		}
		g, verdict, _ := e.Value.node.Acquire(&e.Policy.Terms, now, w.want)
		if verdict == lease.Wait {
			waiting = append(waiting, w)
		} else if !w.reply.answer(w.at, g) {
			s.takeBack(now, e, g)
		}
	}
	clear(e.Value.waiting[len(waiting):])
	if e.Value.waiting = waiting; len(waiting) > 0 {
		s.due.add(shard, e, waited)
	}
}

func wants(queue []waiter) []lease.Want {
	out := make([]lease.Want, len(queue))
	for i := range queue {
		out[i] = queue[i].want
	}
	return out
}
