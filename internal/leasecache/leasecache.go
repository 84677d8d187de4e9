package leasecache

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Config is what a cache is made of.
type Config struct {
	Store engine.Store
	// MaxKeys and MaxBytes bound what is cached, each at least 1; a key counts as 520
	// bytes, and takes about 600 of Go's heap.
	MaxKeys  int
	MaxBytes int64
	// Now is a monotonic clock above zero; nil means the process's.
	Now func() lease.Millis
	// Timeout bounds calls of the store; 0 means 100 ms.
	Timeout time.Duration
	// Answers is how long an answer of the store may take in an ordinary hour; 0 means
	// 20 ms, as within a region. A group is given at least that long.
	Answers time.Duration
	// Wall is the time of day; nil means the system's. It ends the windows of a replica's
	// share of a limit while the store does not answer.
	Wall func() limit.Micros
	// Replicas is how many replicas of the region ask the store for the same keys, this one
	// included, if the store is that of another region: the more there are, the less often each
	// asks. nil means 2. It is called under locks.
	Replicas func() int
	// Jitter is a percentage of a pause, which keeps replicas from asking in step; nil means 90 to 110, at random. It is
	// called under locks.
	Jitter func() lease.Percent
}

// Store is a cache and the store behind it. Create it with [New]. It is safe for
// concurrent use; [Store.Run] has to run beside it.
type Store struct {
	config Config // complete
	table  *table.Table[cached]

	id                                                   [16]byte // names the cache's own debts
	leased, denied, asked, failed, evicted, full, waited atomic.Uint64

	open     atomic.Int64 // batches that are not answered
	behind   atomic.Int64 // those of them for whose answers nobody waits
	draining atomic.Bool  // nothing is asked for ahead any more
	ended    atomic.Bool  // nothing is asked for any more
}

// Stats counts asks by who answered them.
type Stats struct {
	Leased uint64 // from a lease
	Denied uint64 // from a denial in memory
	Failed uint64 // unavailable without asking: the store did not answer just before
	Asked  uint64 // sent to the store: on behalf of callers, behind them, or passed on
	Waited uint64 // units of requests that waited for an answer of the store
	// Evicted counts keys that were evicted although they had units on lease, had handed
	// some out, or had a denial to remember. Full counts how often no key could be evicted.
	Evicted uint64
	Full    uint64
	Keys    int
}

// New makes a cache in front of a store.
func New(c Config) *Store {
	if c.Now == nil {
		begin := time.Now()
		c.Now = func() lease.Millis { return lease.Millis(time.Since(begin).Milliseconds()) + 1 }
	}
	if c.Wall == nil {
		c.Wall = func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	}
	c.Timeout, c.Answers = cmp.Or(c.Timeout, 100*time.Millisecond), cmp.Or(c.Answers, 20*time.Millisecond)
	if c.Replicas == nil {
		c.Replicas = func() int { return 2 }
	}
	if c.Jitter == nil {
		c.Jitter = func() lease.Percent { return lease.Percent(90 + rand.IntN(21)) }
	}
	s := &Store{
		config: c,
		table:  table.New[cached](max(c.MaxKeys, 1), max(c.MaxBytes, 1)),
	}
	binary.NativeEndian.PutUint64(s.id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(s.id[8:], rand.Uint64())
	return s
}

// beside is how many replicas ask for the same keys.
func (s *Store) beside() uint8 { return uint8(min(max(s.config.Replicas(), 0), math.MaxUint8)) }

// Stats counts.
func (s *Store) Stats() Stats {
	keys, _ := s.table.Size()
	return Stats{
		Leased: s.leased.Load(), Denied: s.denied.Load(), Failed: s.failed.Load(), Asked: s.asked.Load(),
		Evicted: s.evicted.Load(), Full: s.full.Load(), Keys: keys, Waited: s.waited.Load(),
	}
}
