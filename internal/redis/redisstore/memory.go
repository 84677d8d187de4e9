package redisstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// memoryEvery is the time between two looks at the memory of a node. A node that
// fills within seconds is noticed by what it refuses.
const memoryEvery = 5 * time.Second

// memory is what a node states of its memory.
type memory struct {
	used, limit uint64 // bytes; a limit of 0: none is set
	evicted     uint64 // keys, since the node started
}

// measure reads the node's memory periodically until ctx ends. It has a goroutine of its
// own: a node that hangs must not delay its probes.
func (n *node) measure(ctx context.Context) {
	logged := false
	for {
		if !n.open.Load() {
			m, err := readMemory(ctx, n.client.Load())
			switch {
			case err == nil:
				n.noteMemory(m)
			case isReply(err):
				n.memory.Store(nil)
				if !logged {
					logged = true // it lasts: an ACL without INFO
					n.store.config.Log.Info("redis does not report its memory; weir_redis_memory_* leave it out", "addr", n.addr, "error", n.store.config.advised(err))
				}
			}
		}
		if !sleep(ctx, jittered(memoryEvery)) {
			return
		}
	}
}

// noteMemory keeps m, and counts the keys that were evicted since the last look. A node
// that counts fewer than before has started again.
func (n *node) noteMemory(m memory) {
	if before := n.memory.Swap(&m); before != nil {
		fresh := m.evicted
		if fresh >= before.evicted {
			fresh -= before.evicted
		}
		n.store.counters.evicted.Add(fresh)
	}
}

var errNoMemory = errors.New("redis: INFO has no used_memory, maxmemory or evicted_keys")

// readMemory asks a node for its memory.
func readMemory(ctx context.Context, client *redis.Client) (memory, error) {
	pipe := client.Pipeline()
	about, stats := pipe.Info(ctx, "memory"), pipe.Info(ctx, "stats")
	if _, err := pipe.Exec(ctx); err != nil {
		return memory{}, err
	}
	of, counts := fields(about.Val()), fields(stats.Val())
	used, err1 := strconv.ParseUint(of["used_memory"], 10, 64)
	limit, err2 := strconv.ParseUint(of["maxmemory"], 10, 64)
	evicted, err3 := strconv.ParseUint(counts["evicted_keys"], 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return memory{}, errNoMemory
	}
	return memory{used, limit, evicted}, nil
}

// Memory describes the memory of all masters together.
type Memory struct {
	Known       int     // masters that state their memory
	Used, Limit uint64  // bytes of these; masters without a limit add none to Limit
	Fullest     float64 // used ÷ limit of the master that is fullest; 0: no master has a limit
}

// Memory returns what the masters stated last, some seconds ago.
func (s *Store) Memory() (all Memory) {
	for _, n := range s.serving() {
		m := n.memory.Load()
		if m == nil {
			continue
		}
		all.Known++
		all.Used += m.used
		all.Limit += m.limit
		if m.limit > 0 {
			all.Fullest = max(all.Fullest, float64(m.used)/float64(m.limit))
		}
	}
	return all
}
