// Package memory is the [engine.Store] of a region with one replica: counters in this process's memory. It is exact and
// needs no network. A saved store ([Store.Save]) can be loaded by the next process ([Store.Loader]).
package memory

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// Config is how large a store may become and what its clock is.
type Config struct {
	// MaxKeys bounds the counters kept at once, at least 1. A counter counts as 208 bytes, and takes about 250 of
	// Go's heap; a key of more than 30 bytes takes its length more.
	MaxKeys int
	// MaxBytes bounds the memory of counters, keys, logs (16 bytes for each charge
	// within a window) and holdings, at least 1.
	MaxBytes int64
	// Now is the clock; nil means the system's. It may step back or forward: see package limit.
	Now func() limit.Micros
}

// Store keeps counters in memory. Create it with [New]; it is ready at once, and
// safe for concurrent use.
type Store struct {
	now     func() limit.Micros
	table   *table.Table[value]
	changed atomic.Bool // there was an ask since Changed was called
	debts   debts

	evicted  atomic.Uint64
	rejected atomic.Uint64
}

// value is what is kept of a counter.
type value struct {
	counter granter.Counter
	slots   *granter.Slots // of a Concurrency limit, instead of counter
	extra   int            // bytes reported to the table beside the entry
	busy    bool           // a decision is under way: not to be evicted
}

// Stats is how full a store is, and what it evicted and rejected for that.
type Stats struct {
	Keys     int    // counters kept
	Bytes    int64  // memory that they take
	Evicted  uint64 // counters evicted, all of them as good as new
	Rejected uint64 // asks that could not be counted for lack of room
}

// New makes an empty store.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	}
	return &Store{
		now:   c.Now,
		table: table.New[value](max(c.MaxKeys, 1), max(c.MaxBytes, 1)),
		debts: debts{most: int(min(max(c.MaxBytes>>10, leastDebts), mostDebts))},
	}
}

// Stats counts.
func (s *Store) Stats() Stats {
	keys, size := s.table.Size()
	return Stats{Keys: keys, Bytes: size, Evicted: s.evicted.Load(), Rejected: s.rejected.Load()}
}

// KeyBytes is the memory that one key may have, in bytes, if no other key of its shard takes any.
func (s *Store) KeyBytes() int64 { return s.table.ShardBytes() - keyBytes }

// keyBytes is what an entry takes at most beside its value: itself and a long key.
const keyBytes = 1 << 10

// Acquire decides; it never waits for longer than a lock.
func (s *Store) Acquire(_ context.Context, asks []engine.Ask, grants []lease.Grant) {
	now := s.now()
	if !s.changed.Load() {
		s.changed.Store(true)
	}
	for i := 0; i < len(asks); {
		n := engine.GroupLen(asks[i:])
		if n == 1 {
			grants[i] = s.one(now, &asks[i])
		} else {
			s.group(now, asks[i:i+n], grants[i:i+n])
		}
		i += n
	}
}

// one decides on an ask that is alone.
func (s *Store) one(now limit.Micros, a *engine.Ask) lease.Grant {
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	if !a.Changes() && a.Holder == 0 && shard.Find(hash, a.Policy, a.Key) == nil {
		unknown := newValue(a.Policy)
		return unknown.acquire(now, a)
	}
	e := s.entry(shard, hash, now, a)
	if e == nil {
		return lease.Grant{Status: lease.Unavailable}
	}
	counted := s.counted(now, a)
	g := e.Value.acquire(now, &counted)
	e.Value.release(shard)
	return g
}

// counted is an ask without what it has reported before.
func (s *Store) counted(now limit.Micros, a *engine.Ask) engine.Ask {
	counted := *a
	s.debts.charge(now, &counted)
	return counted
}

// entry finds the counter of an ask or makes it, and marks it busy. It is nil if
// there is no room.
func (s *Store) entry(shard *table.Shard[value], hash uint64, now limit.Micros, a *engine.Ask) *table.Entry[value] {
	e := shard.Find(hash, a.Policy, a.Key)
	if e == nil {
		e = s.add(shard, hash, now, a)
	} else {
		e.Policy = a.Policy
		e.Value.busy = true
		if e.Value.grows(a) && shard.Over(e.Value.extra) && !s.evict(shard, now, e.Value.extra) {
			e.Value.busy = false
			e = nil
		}
	}
	if e == nil {
		s.rejected.Add(1)
	}
	return e
}

// add makes a counter.
func (s *Store) add(shard *table.Shard[value], hash uint64, now limit.Micros, a *engine.Ask) *table.Entry[value] {
	e := shard.Add(hash, a.Policy, a.Key)
	if e == nil {
		s.evict(shard, now, len(a.Key))
		if e = shard.Add(hash, a.Policy, a.Key); e == nil {
			return nil
		}
	}
	e.Value = newValue(a.Policy)
	e.Value.busy = true
	return e
}

func newValue(p *engine.Policy) (v value) {
	if p.Limit.Concurrent() {
		v.slots = new(granter.Slots)
	}
	return v
}

// acquire decides on one ask.
func (v *value) acquire(now limit.Micros, a *engine.Ask) lease.Grant {
	if v.slots != nil {
		return engine.AcquireSlots(v.slots, now, a)
	}
	return engine.AcquireUnits(&v.counter, now, a)
}

// release ends what entry began, and updates how much memory the table counts for the value.
func (v *value) release(shard *table.Shard[value]) {
	v.busy = false
	if extra := v.bytes(); extra != v.extra {
		shard.Took(extra - v.extra)
		v.extra = extra
	}
}

// bytes is what the value takes beside its entry.
func (v *value) bytes() int {
	if v.slots != nil {
		return slotsBytes + v.slots.Bytes()
	}
	n := 16 * cap(v.counter.State.Log)
	if v.counter.Lockout != nil {
		n += lockoutBytes
	}
	return n
}

const (
	slotsBytes   = int(unsafe.Sizeof(granter.Slots{}))
	lockoutBytes = int(unsafe.Sizeof(limit.Lockout{}))
)

// grows reports whether deciding on an ask may take more memory.
func (v *value) grows(a *engine.Ask) bool {
	if v.slots != nil {
		return !v.slots.Remembers(a.Holder) // a holder that renews always has room
	}
	log := v.counter.State.Log
	charges := a.Want.Want > 0 || a.Want.Overdrawn > 0
	return charges && log != nil && len(log)+3 > cap(log) // three entries: reported, denied and granted
}

// cell is a value in memory.
type cell struct {
	now   func() limit.Micros
	mu    sync.Mutex
	value []byte
}

// NewCell makes a cell of this process on the clock of the store. Nothing is stored in it.
func (s *Store) NewCell() engine.Cell { return &cell{now: s.now} }

func (c *cell) Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found = c.value
	if next != nil && bytes.Equal(found, old) {
		c.value = bytes.Clone(next)
	}
	return found, c.now(), nil
}
