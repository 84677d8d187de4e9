package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// key is a key of the cache. Its entry may be used while its shard is locked.
type key struct {
	store                *Store
	shard                *table.Shard[cached]
	hash                 uint64
	*table.Entry[cached] // nil: the cache has none
}

// cached is what the cache keeps of a key.
type cached struct {
	relay   lease.Relay
	budget  budget
	waiting []waiter     // for the reply to an ask that is out, or for a place in the next
	back    []part       // to be given back with the next asks
	exact   *exact       // a request brought a limit of its own; nil: none did
	slots   *slotState   // of a Concurrency limit; nil: no request was denied
	used    lease.Millis // when it was asked for last
	dueAt   lease.Millis // when it is due
	replied lease.Millis // when the last reply arrived; 0: never
	pause   lease.Millis // the store did not answer: it is not asked before then
	out     int32        // asks that are out
	due     reason       // why it is on the agenda; none: it is not
}

// busy reports whether the entry is still needed for an ask that is out or to come.
func (c *cached) busy() bool {
	return len(c.waiting) > 0 || c.out > 0 || c.due != none || len(c.back) > 0
}

// keyOf is the key of an ask, without its entry. The shard is not locked.
func (s *Store) keyOf(a *engine.Ask) key {
	hash := s.table.Hash(a.Policy, a.Key)
	return key{store: s, shard: s.table.Shard(hash), hash: hash}
}

// lock locks the shard of an ask's key. The caller unlocks it.
func (s *Store) lock(a *engine.Ask) key {
	k := s.keyOf(a)
	k.shard.Lock()
	return k
}

// withEntry does something with the key of an ask, if it has an entry.
func (s *Store) withEntry(a *engine.Ask, do func(k key)) bool {
	k := s.lock(a)
	defer k.shard.Unlock()
	if k.Entry = k.shard.Find(k.hash, a.Policy, a.Key); k.Entry == nil {
		return false
	}
	do(k)
	return true
}

// find finds the entry for an ask. False if there is none.
func (k *key) find(now lease.Millis, a *engine.Ask) bool {
	e := k.shard.Find(k.hash, a.Policy, a.Key)
	if k.Entry = e; e == nil {
		return false
	}
	e.Value.used = now
	if e.Policy != a.Policy && !a.Policy.Brought {
		k.adopt(a.Policy)
	}
	return true
}

// adopt makes a policy that of the key. What was granted by another count goes back by that.
func (k key) adopt(p *engine.Policy) {
	if p.Terms.Capacity != k.Policy.Terms.Capacity && p.Limit.Spec().Algorithm != limit.Concurrency {
		k.giveAllBack()
		k.Value.relay.Account.Unlearn()
		k.Value.replied = 0
	}
	k.Policy = p
}

// add makes the entry for an ask that has none. False if there is no room, and no other key can be evicted.
func (k *key) add(now lease.Millis, a *engine.Ask) bool {
	e := k.shard.Add(k.hash, a.Policy, a.Key)
	for range roomStep { // the room of several short keys is that of a long one
		if e != nil || !k.shard.Fits(a.Key) || !k.store.makeRoom(now, k.shard) {
			break
		}
		e = k.shard.Add(k.hash, a.Policy, a.Key)
	}
	if k.Entry = e; e == nil {
		k.store.full.Add(1)
		return false
	}
	e.Value.used = now
	return true
}

// findOrAdd finds the entry for an ask, or makes it.
func (k *key) findOrAdd(now lease.Millis, a *engine.Ask) bool {
	return k.find(now, a) || k.add(now, a)
}

// topUp puts the key on the agenda if its lease runs low, or for when it will end.
func (k key) topUp(now lease.Millis) {
	t := &k.Policy.Terms
	if k.Value.exact.lasts(now) {
		return
	}
	if behind := k.Value.relay.Top(t, now); behind != lease.NoAsk {
		k.schedule(now, reason(behind))
	} else if t.Far {
		k.renew(now)
	}
}

// renew puts the key on the agenda for when its lease ends too soon for another one to arrive.
func (k key) renew(now lease.Millis) {
	v := &k.Value
	at := v.relay.Account.RenewAt(&k.Policy.Terms, now)
	if at == lease.Never || v.due == ending && v.dueAt <= at || v.due != none && v.due != ending || v.out > 0 {
		return
	}
	v.due, v.dueAt = ending, at
	k.store.due.add(dueKey{key: k, at: at}, at-now)
}
