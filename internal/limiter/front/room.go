package front

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// roomStep is how many entries are looked at for each that has to go: the key that
// goes was asked for longer ago than fifteen others, so a hot one stays.
const roomStep = 16

// entry finds or makes the node of a counter; nil if there is no room.
func (s *Store) entry(shard *table.Shard[cached], hash uint64, now lease.Millis, a *limiter.Ask) *table.Entry[cached] {
	if e := s.find(shard, hash, now, a); e != nil {
		return e
	}
	return s.add(shard, hash, now, a)
}

// find finds the node of a counter that is asked for; nil if it has none.
func (s *Store) find(shard *table.Shard[cached], hash uint64, now lease.Millis, a *limiter.Ask) *table.Entry[cached] {
	e := shard.Find(hash, a.Policy, a.Key)
	if e != nil {
		e.Value.used = now
		if e.Policy != a.Policy {
			s.keepBy(now, shard, e, a.Policy)
		}
	}
	return e
}

// add makes a node of a counter that has none. It knows what was remembered of it.
// Others make room for it; it is nil if none of them can.
func (s *Store) add(shard *table.Shard[cached], hash uint64, now lease.Millis, a *limiter.Ask) *table.Entry[cached] {
	e := shard.Add(hash, a.Policy, a.Key)
	for range roomStep { // the room of several short keys is that of a long one
		if e != nil || !shard.Fits(a.Key) || !s.makeRoom(shard, now) {
			break
		}
		e = shard.Add(hash, a.Policy, a.Key)
	}
	if e == nil {
		s.full.Add(1)
		return nil
	}
	e.Value.used = now
	if a.Policy.Beside != nil { // what is remembered goes by the rule's count
		return e
	}
	e.Value.node.Account = s.denials[shard.Number()].take(now, hash, &a.Policy.Terms)
	return e
}

// makeRoom forgets those of the next keys that know nothing which matters, or else
// evicts the one that was asked for longest ago. False if none of them can go.
func (s *Store) makeRoom(shard *table.Shard[cached], now lease.Millis) (room bool) {
	if s.draining.Load() {
		return false
	}
	var oldest *table.Entry[cached]
	shard.Scan(roomStep, func(e *table.Entry[cached]) {
		switch {
		case s.forget(now, shard, e):
			room = true
		case e.Value.mayGo() && (oldest == nil || e.Value.used < oldest.Value.used):
			oldest = e
		}
	})
	if !room && oldest != nil {
		s.evict(now, shard, oldest)
		room = true
	}
	return room
}

// mayGo reports whether a key may lose its entry. Not while somebody waits for it or
// an ask is out, nor before the store has confirmed what it owes: a debt is repeated
// until it is acknowledged, and with it goes the memory of a share that was spent
// while the store did not answer.
func (c *cached) mayGo() bool {
	return len(c.waiting) == 0 && c.out == 0 && !c.guests.wait() && c.node.Account.Overdrawn == 0
}

// evict takes a key's entry. What it has on lease goes back, what it was denied is
// remembered. Its place on the agenda counts no more, see [dueKey].
func (s *Store) evict(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached]) {
	c, p := &e.Value, e.Policy
	if p.Limit.Spec().Algorithm != limit.Concurrency {
		if d, ok := denialOf(now, e.Hash(), c.lastDenial(now, &p.Terms)); ok && p.Beside == nil {
			s.denials[shard.Number()].remember(now, d)
		}
		c.unlease(&p.Terms)
		if denied := c.node.Account.Denied; denied > 0 && p.Limit.ChargesDenied() {
			s.due.say(limiter.Ask{Policy: p, Key: e.Key(), Want: lease.Want{Denied: denied}})
		}
		for i := range c.back {
			s.due.say(c.back[i].ask(p, e.Key()))
		}
	}
	shard.Remove(e)
	s.evicted.Add(1)
}

// lastDenial is what a slot says whose own units have gone back.
func (c *cached) lastDenial(now lease.Millis, t *lease.Terms) *lease.Account {
	slot := c.node.Account
	own := slot.Held(t, now)
	slot.Left += own
	if slot.DeniedNeed > 0 {
		slot.DeniedNeed += own
	}
	return &slot
}

// unlease takes all units out of a key's leases, to be given back.
func (c *cached) unlease(t *lease.Terms) {
	for i := range c.node.Account.Lots {
		if lot := &c.node.Account.Lots[i]; lot.Units > 0 && !lot.Local {
			c.keep(t, part{units: lot.Units, lease: lot.Lease})
			*lot = lease.Lot{}
		}
	}
}

// recalled refuses an ask for a key without an entry from what is remembered of it.
// False if it needs an entry: to settle units, to count it where refused requests are
// charged, or because the store may be asked.
func (c *call) recalled(shard *table.Shard[cached], hash uint64, a *limiter.Ask, i int) bool {
	d := c.store.denials[shard.Number()].find(c.now, hash)
	w := &a.Want
	if d == nil || a.Policy.Beside != nil || w.Want == 0 || w.Unused > 0 || a.Policy.Limit.ChargesDenied() {
		return false
	}
	t := &a.Policy.Terms
	node := lease.Relay{Account: d.slot(t)}
	grant, verdict, _ := node.Acquire(t, c.now, *w)
	if verdict != lease.Refuse {
		return false
	}
	c.grants[i] = grant
	c.answered(verdict)
	return true
}

// noteDenied remembers that an ask was denied for which there was no room.
func (s *Store) noteDenied(now lease.Millis, a *limiter.Ask, g lease.Grant) {
	if g.Status != lease.Denied || a.Want.Need == 0 || a.Policy.Beside != nil {
		return
	}
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	if shard.Find(hash, a.Policy, a.Key) != nil {
		return
	}
	slot := lease.Account{DeniedNeed: min(a.Want.Need, g.Remaining+1), Reset: now + g.Reset, NextAsk: now + g.AskAfter}
	if d, ok := denialOf(now, hash, &slot); ok {
		s.denials[shard.Number()].remember(now, d)
	}
}
