// Package memory is the [limiter.Store] of a region with one replica: counters in
// this process's memory. It is exact and as near as can be, and forgets everything
// when the process ends; replicas do not share it.
package memory

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/table"
)

// Config says how large a store may become and what its clock is.
type Config struct {
	// MaxKeys bounds the counters kept at once, at least 1. A counter takes about
	// 210 bytes, and a key of more than 30 bytes its length more.
	MaxKeys int
	// MaxBytes bounds the memory of counters, keys, logs (16 bytes for each charge
	// within a window) and holdings, at least 1.
	MaxBytes int64
	// Now is the clock; nil means the system's. It may step: see package limit.
	Now func() limit.Micros
}

// Store keeps counters in memory. Create it with [New]; it is ready at once, and
// safe for concurrent use.
type Store struct {
	now      func() limit.Micros
	table    *table.Table[value]
	epoch    uint64
	started  limit.Micros
	learning atomic.Bool

	evicted atomic.Uint64
	refused atomic.Uint64
}

// value is what is kept of a counter.
type value struct {
	counter lease.Counter
	slots   *limiter.Slots // of a Concurrency limit, instead of counter
	extra   int            // bytes reported to the table beside the entry
	busy    bool           // being decided on: not to be forgotten meanwhile
}

// Stats is how full a store is and what it did about it.
type Stats struct {
	Keys    int    // counters kept
	Bytes   int64  // memory that they take
	Evicted uint64 // counters forgotten, all of them as good as new
	Refused uint64 // asks that there was no room to count
}

// New makes an empty store, whose life starts now.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	}
	return &Store{
		now:     c.Now,
		table:   table.New[value](max(c.MaxKeys, 1), max(c.MaxBytes, 1)),
		epoch:   max(rand.Uint64(), 1),
		started: c.Now(),
	}
}

// Epoch is a random number made by New.
func (s *Store) Epoch() uint64 { return s.epoch }

// Learn makes unknown counters begin as spent when the store started.
func (s *Store) Learn() { s.learning.Store(true) }

// Stats counts.
func (s *Store) Stats() Stats {
	keys, size := s.table.Size()
	return Stats{Keys: keys, Bytes: size, Evicted: s.evicted.Load(), Refused: s.refused.Load()}
}

// Acquire decides; it never waits for longer than a lock.
func (s *Store) Acquire(_ context.Context, asks []limiter.Ask, grants []lease.Grant) {
	now := s.now()
	for i := 0; i < len(asks); {
		n := limiter.GroupLen(asks[i:])
		if n == 1 {
			grants[i] = s.one(now, &asks[i])
		} else {
			s.group(now, asks[i:i+n], grants[i:i+n])
		}
		i += n
	}
}

// one decides on an ask that is alone.
func (s *Store) one(now limit.Micros, a *limiter.Ask) lease.Grant {
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	if s.saysNothing(a) && shard.Find(hash, a.Policy, a.Key) == nil {
		var unknown value
		return unknown.acquire(now, a)
	}
	e := s.entry(shard, hash, now, a)
	if e == nil {
		return lease.Grant{Status: lease.Unavailable}
	}
	g := e.Value.acquire(now, a)
	e.Value.release(shard)
	return g
}

// entry finds the counter of an ask or makes it, and marks it busy. It is nil if
// there is no room.
func (s *Store) entry(shard *table.Shard[value], hash uint64, now limit.Micros, a *limiter.Ask) *table.Entry[value] {
	e := shard.Find(hash, a.Policy, a.Key)
	if e == nil {
		e = s.add(shard, hash, now, a)
	} else {
		e.Policy = a.Policy
		e.Value.busy = true
		if e.Value.grows(a) && shard.Over(e.Value.extra) && !s.makeRoom(shard, now, e.Value.extra) {
			e.Value.busy = false
			e = nil
		}
	}
	if e == nil {
		s.refused.Add(1)
	}
	return e
}

// add makes a counter, as new or, while learning, as spent when the store started.
func (s *Store) add(shard *table.Shard[value], hash uint64, now limit.Micros, a *limiter.Ask) *table.Entry[value] {
	e := shard.Add(hash, a.Policy, a.Key)
	if e == nil {
		s.makeRoom(shard, now, len(a.Key))
		if e = shard.Add(hash, a.Policy, a.Key); e == nil {
			return nil
		}
	}
	e.Value.busy = true
	l := a.Policy.Limit
	concurrent := l.Spec().Algorithm == limit.Concurrency
	if concurrent {
		e.Value.slots = new(limiter.Slots)
	}
	switch learns := s.learns(a.Policy); {
	case learns && concurrent:
		e.Value.slots.Held = l.SpentSlots(s.started)
	case learns:
		e.Value.counter = lease.NewLearning(l, s.started)
	}
	return e
}

// learns reports whether an unknown counter may have been spent before the start.
func (s *Store) learns(p *limiter.Policy) bool { return s.learning.Load() && p.Since <= s.started }

// saysNothing reports whether an ask changes nothing about a counter that is new:
// there is no need to make one for it.
func (s *Store) saysNothing(a *limiter.Ask) bool {
	return a.Want.Want == 0 && a.Want.Overdrawn == 0 && a.Holder == 0 && !s.learns(a.Policy)
}

// acquire decides on one ask.
func (v *value) acquire(now limit.Micros, a *limiter.Ask) lease.Grant {
	if v.slots != nil {
		return v.slots.Acquire(a.Policy, now, a)
	}
	return v.counter.Acquire(a.Policy.Limit, &a.Policy.Terms, now, a.Want)
}

// release ends what entry began, and tells the table what the value takes now.
func (v *value) release(shard *table.Shard[value]) {
	v.busy = false
	extra := 16 * cap(v.counter.State.Log)
	if v.slots != nil {
		extra = slotsBytes + v.slots.Bytes()
	}
	if extra != v.extra {
		shard.Took(extra - v.extra)
		v.extra = extra
	}
}

const slotsBytes = int(unsafe.Sizeof(limiter.Slots{}))

// grows reports whether deciding on an ask may take more memory.
func (v *value) grows(a *limiter.Ask) bool {
	if v.slots != nil {
		return !v.slots.Knows(a.Holder) // who renews is never without room
	}
	log := v.counter.State.Log
	charges := a.Want.Want > 0 || a.Want.Overdrawn > 0
	return charges && log != nil && len(log)+3 > cap(log) // reported, denied and granted: three entries
}
