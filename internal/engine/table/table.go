// Package table is a bounded hash table of counters, in shards with a lock each. Finding an entry allocates nothing. Adding
// an entry with a short key allocates nothing once the table has been as full before. The table never moves or scans all
// entries, so there are no pauses.
package table

import (
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/repeat"
)

const (
	// mostShards bounds what an empty table costs; the locks of so many are not
	// contended by any number of processors that Go runs on.
	mostShards = 256
	// shardKeys is the least number of keys for which a shard is worth having:
	// with fewer, shards would differ too much in how many keys fall to them.
	shardKeys = 1024
	// chunkEntries is how many entries are allocated at once.
	chunkEntries = 64
)

// Table maps a counter's name, policy and key, to a value. Its shards are safe
// for concurrent use under their locks.
type Table[V any] struct {
	seed   maphash.Seed
	shift  uint
	shards []Shard[V]
}

// Shard is a part of a table. It has to be locked for all of its methods.
type Shard[V any] struct {
	sync.Mutex
	index    index
	chunks   []*[chunkEntries]Entry[V]
	free     uint32 // first unused entry plus one, chained by next; 0: none
	made     uint32 // entries ever used, all below this number
	hand     uint32 // where Scan goes on
	maxKeys  int
	maxBytes int64
	bytes    int64
	number   int
	_        [64]byte // shards are not neighbours in a cache line
}

// Entry is one counter. Policy may be replaced by one that is the same. What
// finding it reads comes first, and fills a cache line or two.
type Entry[V any] struct {
	hash   uint64
	Policy *engine.Policy // nil: unused
	key    storedKey
	n      uint32 // its number in the shard
	next   uint32 // while unused: the next unused one plus one

	Value V
}

// Key is the counter's key. It is valid until the entry is removed.
func (e *Entry[V]) Key() []byte { return e.key.bytes() }

// Hash is that of the counter's name, see [Table.Hash].
func (e *Entry[V]) Hash() uint64 { return e.hash }

// New makes a table for up to maxKeys keys in maxBytes bytes, both at least 1.
// The bounds are kept per shard, of which a table has up to 256: since keys do
// not fall evenly, it may be full when a few percent are missing.
func New[V any](maxKeys int, maxBytes int64) *Table[V] {
	n := 1 << (bits.Len(uint(min(max(maxKeys/shardKeys, 1), mostShards))) - 1)
	t := &Table[V]{
		seed:   maphash.MakeSeed(),
		shift:  uint(64 - bits.Len(uint(n-1))),
		shards: make([]Shard[V], n),
	}
	for i := range t.shards {
		t.shards[i].maxKeys = (maxKeys + n - 1) / n
		t.shards[i].maxBytes = max(maxBytes/int64(n), 1)
		t.shards[i].number = i
	}
	return t
}

// Hash is the seeded hash of a counter's name, by which it is found.
func (t *Table[V]) Hash(p *engine.Policy, key []byte) uint64 {
	return maphash.Bytes(t.seed, key) ^ p.Salt()
}

// Shard is where a counter of that hash is.
func (t *Table[V]) Shard(hash uint64) *Shard[V] { return &t.shards[hash>>t.shift] }

// ShardBytes bounds the memory of one shard, and so of one key.
func (t *Table[V]) ShardBytes() int64 { return t.shards[0].maxBytes }

// Size counts keys and bytes; it takes the locks one after the other.
func (t *Table[V]) Size() (keys int, size int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		keys, size = keys+s.index.used, size+s.bytes
		s.Unlock()
	}
	return keys, size
}

// LockAll locks each of the shards once, in the order in which all callers do, and returns
// those that it locked: a part of the slice.
func LockAll[V any](shards []*Shard[V]) []*Shard[V] {
	slices.SortFunc(shards, func(a, b *Shard[V]) int { return a.number - b.number })
	shards = slices.Compact(shards)
	for _, s := range shards {
		s.Lock()
	}
	return shards
}

// UnlockAll unlocks what LockAll returned.
func UnlockAll[V any](shards []*Shard[V]) {
	for _, s := range shards {
		s.Unlock()
	}
}

// Find returns the entry of a counter, nil if there is none. It is valid while
// the lock is held.
func (s *Shard[V]) Find(hash uint64, p *engine.Policy, key []byte) *Entry[V] {
	x := &s.index
	if len(x.cells) == 0 {
		return nil
	}
	for i := hash & x.mask(); x.cells[i] != 0; i = (i + 1) & x.mask() {
		if c := x.cells[i]; c>>32 == hash>>32 {
			e := s.entry(at(c))
			if e.hash == hash && e.Policy.Same(p) && e.key.equal(key) {
				return e
			}
		}
	}
	return nil
}

// Add makes an entry for a counter that has none, with a zero value. It returns
// nil when the shard is full.
func (s *Shard[V]) Add(hash uint64, p *engine.Policy, key []byte) *Entry[V] {
	if s.index.used >= s.maxKeys || s.Over(s.weight()+len(key)) {
		return nil
	}
	e := s.unused()
	e.Policy, e.hash = p, hash
	e.key.set(key)
	s.index.add(hash, e.n, s.hashOf)
	s.bytes += int64(s.weight() + cap(e.key.long))
	return e
}

// Remove forgets an entry. What its value had been reported to take ([Shard.Took])
// has to be reported as given up by the caller.
func (s *Shard[V]) Remove(e *Entry[V]) {
	var zero V
	s.index.remove(e.hash, e.n, s.hashOf)
	s.bytes -= int64(s.weight() + cap(e.key.long))
	e.key.long = nil
	e.Policy, e.Value = nil, zero
	e.next, s.free = s.free, e.n+1
}

// Took notes that a value takes so many more bytes beside the entry; fewer, if
// negative.
func (s *Shard[V]) Took(more int) { s.bytes += int64(more) }

// Over reports whether so many more bytes would be too many.
func (s *Shard[V]) Over(more int) bool { return s.bytes+int64(more) > s.maxBytes }

// Fits reports whether a key fits into an empty shard.
func (s *Shard[V]) Fits(key []byte) bool { return int64(s.weight()+len(key)) <= s.maxBytes }

// Scan passes the next n entries to visit, going round the shard from call to
// call. An entry may be removed by visit.
func (s *Shard[V]) Scan(n int, visit func(*Entry[V])) {
	for range min(uint32(n), s.made) {
		if s.hand >= s.made {
			s.hand = 0
		}
		if e := s.entry(s.hand); e.Policy != nil {
			visit(e)
		}
		s.hand++
	}
}

// SweepAll calls sweep ten times a second, until ctx ends, with the part of a table that is
// due: the whole of it in so many calls.
func SweepAll(ctx context.Context, calls int, sweep func(part float64)) {
	repeat.Every(ctx, 100*time.Millisecond, func() { sweep(1 / float64(calls)) })
}

// sweepStep is how many entries are looked at under one lock: some 3 µs.
const sweepStep = 64

// Sweep looks through such a part of every shard, 0 to 1, a few entries at a time.
// scan is called with the shard locked and how many entries it is to [Shard.Scan]. In between
// the shard is unlocked for others that wait for it.
func (t *Table[V]) Sweep(part float64, scan func(shard *Shard[V], n int)) {
	for i := range t.shards {
		t.shards[i].sweep(part, scan)
	}
}

func (s *Shard[V]) sweep(part float64, scan func(shard *Shard[V], n int)) {
	s.Lock()
	defer s.Unlock()
	for left := int(part*float64(s.made)) + 1; left > 0; left -= sweepStep {
		scan(s, min(left, sweepStep))
		s.Unlock() // for others that wait
		s.Lock()
	}
}

// Walk passes every entry to visit, with its shard locked, a few at a time: until visit
// has enough, at most as many as Sweep looks at. Then it calls between, with
// nothing locked, which reports whether to go on. Entries that come or go meanwhile
// may be passed or not.
func (t *Table[V]) Walk(visit func(*Entry[V]) (enough bool), between func() (more bool)) {
	for i := range t.shards {
		s := &t.shards[i]
		for at, more := uint32(0), true; more; {
			at, more = s.step(at, visit)
			if !between() {
				return
			}
		}
	}
}

func (s *Shard[V]) step(at uint32, visit func(*Entry[V]) bool) (next uint32, more bool) {
	s.Lock()
	defer s.Unlock()
	for end := min(at+sweepStep, s.made); at < end; at++ {
		if e := s.entry(at); e.Policy != nil && visit(e) {
			return at + 1, true
		}
	}
	return at, at < s.made
}

func (s *Shard[V]) entry(n uint32) *Entry[V] { return &s.chunks[n/chunkEntries][n%chunkEntries] }

func (s *Shard[V]) hashOf(n uint32) uint64 { return s.entry(n).hash }

// weight is what an entry takes beside its key: itself and its cells.
func (s *Shard[V]) weight() int { return int(unsafe.Sizeof(Entry[V]{})) + 16 }

// unused takes an entry from the free ones, or makes one.
func (s *Shard[V]) unused() *Entry[V] {
	if s.free > 0 {
		e := s.entry(s.free - 1)
		s.free = e.next
		return e
	}
	if s.made%chunkEntries == 0 {
		s.chunks = append(s.chunks, new([chunkEntries]Entry[V]))
	}
	e := s.entry(s.made)
	e.n = s.made
	s.made++
	return e
}
