package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/lease/relay"
)

// key is a key of the cache. Its entry may be used while its shard is locked.
type key struct {
	store                *Store
	shard                *table.Shard[cached]
	hash                 uint64
	*table.Entry[cached] // nil: the cache has none
}

// cached is what the cache keeps of a key: a relay, and the queue for the next reply of the store.
type cached struct {
	relay   relay.Relay
	waiting []waiter     // for the reply to an ask that is out, or for a place in the next
	back    []back       // goes to the store with the next asks
	passing *passing     // a request brought a limit of its own; nil: none did
	used    lease.Millis // when it was asked for last
	replied lease.Millis // when the last reply arrived; 0: never
	pause   lease.Millis // the store did not answer: it is not asked before then
	askAt   lease.Millis // the store is not asked behind the callers before then
	dueAt   lease.Millis // when its timer ends
	due     reason       // why it has a timer
	out     int32        // asks that are out
}

// busy reports whether the entry is still needed for an ask that is out or to come.
func (c *cached) busy() bool {
	return len(c.waiting) > 0 || c.out > 0 || c.due != none
}

// lock locks the shard of an ask's key. The caller unlocks it.
func (s *Store) lock(a *engine.Ask) key {
	hash := s.table.Hash(a.Policy, a.Key)
	k := key{store: s, shard: s.table.Shard(hash), hash: hash}
	k.shard.Lock()
	return k
}

// withEntry does something with the key of an ask, if it has an entry.
func (s *Store) withEntry(a *engine.Ask, do func(k key)) {
	k := s.lock(a)
	defer k.shard.Unlock()
	if k.Entry = k.shard.Find(k.hash, a.Policy, a.Key); k.Entry != nil {
		do(k)
	}
}

// find finds the entry for an ask. False if there is none.
func (k *key) find(now lease.Millis, a *engine.Ask) bool {
	e := k.shard.Find(k.hash, a.Policy, a.Key)
	if k.Entry = e; e == nil {
		return false
	}
	e.Value.used = now
	if e.Policy != a.Policy && !a.Policy.Brought {
		k.adopt(now, a.Policy)
	}
	return true
}

// adopt makes a policy that of the key. What was granted by another count goes back by that.
func (k key) adopt(now lease.Millis, p *engine.Policy) {
	if p.Terms.Capacity != k.Policy.Terms.Capacity && !p.Limit.Concurrent() {
		k.giveAllBack(now)
		k.Value.relay.Forget()
		k.Value.replied = 0
	}
	k.Policy = p
}

// findOrAdd finds the entry for an ask, or makes it. False if there is no room, and no other key can be
// evicted.
func (k *key) findOrAdd(now lease.Millis, a *engine.Ask) bool {
	if k.find(now, a) {
		return true
	}
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

// topUp sets the timer of the key if its lease runs low, or for when that ends too soon for another
// one to arrive.
func (k key) topUp(now lease.Millis) {
	t := &k.Policy.Terms
	switch {
	case k.Value.passing.lasts(now), k.store.draining.Load():
	case k.Value.relay.Prefetch(t, now) != holder.NoAsk:
		k.schedule(now, behind)
	case t.Aggregator:
		if at := k.Value.relay.RenewAt(t, now); at != lease.Never {
			k.schedule(at, behind)
		}
	}
}

// roomStep is how many entries are looked at for each that is evicted: it was used longer
// ago than fifteen others, so a hot one stays.
const roomStep = 16

// makeRoom forgets those of the next keys that hold nothing which matters, or else evicts
// the one that was used longest ago. False if none of them can be evicted.
func (s *Store) makeRoom(now lease.Millis, shard *table.Shard[cached]) (room bool) {
	if s.draining.Load() {
		return false
	}
	var oldest key
	s.scan(shard, roomStep, func(k key) {
		switch {
		case k.forget(now):
			room = true
		case k.Value.evictable() && (oldest.Entry == nil || k.Value.used < oldest.Value.used):
			oldest = k
		}
	})
	if !room && oldest.Entry != nil {
		oldest.evict(now)
		room = true
	}
	return room
}

// evictable reports whether a key may lose its entry. Entries with waiters, asks that are
// out, or unreported debt are never evicted: a debt is repeated until it is acknowledged,
// and with it would go the memory of a share that was spent while the store did not answer.
func (c *cached) evictable() bool {
	return len(c.waiting) == 0 && c.out == 0 && c.relay.Holder.Overdrawn == 0
}

// evict removes the entry of a key. Its leases go back to the store.
func (k key) evict(now lease.Millis) {
	if !k.Policy.Limit.Concurrent() {
		k.giveAllBack(now)
	}
	k.shard.Remove(k.Entry)
	k.store.evicted.Add(1)
}

// Sweep looks through such a part of every shard, 0 to 1: idle keys give back what they
// have, and are forgotten when a new entry would do the same.
func (s *Store) Sweep(part float64) {
	if s.draining.Load() {
		return
	}
	s.table.Sweep(part, func(shard *table.Shard[cached], n int) {
		now := s.config.Now()
		s.scan(shard, n, func(k key) { k.forget(now) })
	})
}

// scan visits the next n entries of a shard, which is locked.
func (s *Store) scan(shard *table.Shard[cached], n int, visit func(k key)) {
	shard.Scan(n, func(e *table.Entry[cached]) { visit(key{store: s, shard: shard, hash: e.Hash(), Entry: e}) })
}

// forget removes the entry of a key if a new one would do the same, which would take back
// less while leases run that were cut from this one. An idle key that has something to
// report gets a timer.
func (k key) forget(now lease.Millis) bool {
	v := &k.Value
	switch {
	case v.busy() || now < max(v.askAt, v.pause): // a new entry may ask at once
	case len(v.back) > 0:
		k.reportBack(now)
	case !v.passing.lasts(now) && v.relay.Idle(&k.Policy.Terms, now):
		k.shard.Remove(k.Entry)
		return true
	case k.reports(now):
		k.report(now)
	}
	return false
}

// reports reports whether the key has something to report. It asks a copy of its account:
// reporting takes it out.
func (k key) reports(now lease.Millis) bool {
	account := k.Value.relay.Holder
	_, ok := account.Report(&k.Policy.Terms, now)
	return ok || k.Value.sendsBack(now)
}
