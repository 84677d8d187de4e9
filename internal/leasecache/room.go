package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

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
	return len(c.waiting) == 0 && c.out == 0 && c.relay.Account.Overdrawn == 0
}

// evict removes the entry of a key. Its leases go back to the store. Its place on the agenda counts no more, see
// [dueKey].
func (k key) evict(now lease.Millis) {
	v, p := &k.Value, k.Policy
	if p.Limit.Spec().Algorithm != limit.Concurrency {
		if denied := v.relay.Account.Denied; denied > 0 && p.Limit.ChargesDenied() {
			k.store.due.addAsk(engine.Ask{Policy: p, Key: k.Key(), Want: lease.Want{Denied: denied}})
		}
		k.giveAllBack()
	}
	k.shard.Remove(k.Entry)
	k.store.evicted.Add(1)
}

// giveAllBack gives back what the key has on lease, each part in an ask of its own.
func (k key) giveAllBack() {
	v := &k.Value
	v.unlease(&k.Policy.Terms, lease.Never)
	for i := range v.back {
		v.relay.Back -= v.back[i].units
		k.store.due.addAsk(v.back[i].ask(k.Policy, k.Key()))
	}
	v.back = nil
}
