//go:build linux

package region

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/table"
)

// What is stored: so many units per key in a log, so many slots held.
const (
	storedUnits = 100
	storedSlots = 50
)

// memory counts the bytes of Redis per key of each algorithm. The model is what
// the algorithm's state needs at least; a key costs Redis its name and more than
// sixty bytes of its own whatever its value.
func (b *bench) memory(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: fmt.Sprintf("Memory of Redis, L = %d, C = %d, three masters", storedUnits, storedSlots)}
	theirs, err := b.peers.RedisRate(b.redis.Addrs())
	if err != nil {
		return nil, err
	}
	defer theirs.Stop()
	rate, err := b.stored("redis_rate (a float in text)", func() error {
		_, err := theirs.Fill(ctx, b.plan.stored, storedUnits)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Rows = append(s.Rows, rate)
	store, err := openStore(ctx, b.redis)
	if err != nil {
		return nil, err
	}
	defer store.close()
	for _, a := range b.kept() {
		row, err := b.stored("Weir, "+a.name, func() error { return store.fill(ctx, a, b.plan.stored, b.plan.storedTime) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		row.Peer = rate.Value
		row.Note = fmt.Sprintf("model %d; %s", a.model, row.Note)
		s.Rows = append(s.Rows, row)
	}
	b.redis.flush()
	return []table.Section{s}, nil
}

// kept is an algorithm with so many acquires of each key.
type kept struct {
	name     string
	policy   *engine.Policy
	acquires int
	model    int // bytes of state per key
}

func (b *bench) kept() []kept {
	spec := func(a limit.Algorithm) limit.Spec {
		return limit.Spec{Algorithm: a, Count: storedUnits, Period: limit.Day}
	}
	slots := limit.Spec{Algorithm: limit.Concurrency, Count: storedSlots, LeaseTTL: limit.Day}
	return []kept{
		{"token bucket", policyOf("bucket", spec(limit.TokenBucket)), 1, 16},
		{"fixed window", policyOf("window", spec(limit.FixedWindow)), 1, 16},
		{"sliding window", policyOf("window", spec(limit.SlidingWindow)), 1, 16},
		{"sliding log", policyOf("log", spec(limit.SlidingLog)), storedUnits, 8 * storedUnits},
		{"concurrency", policyOf("slots", slots), storedSlots, 16 * storedSlots},
	}
}

// stored is a row of the bytes per key that fill has added to an empty Redis.
func (b *bench) stored(name string, fill func() error) (table.Row, error) {
	b.redis.flush()
	time.Sleep(200 * time.Millisecond) // connections' buffers shrink
	before, _ := b.redis.used()
	if err := fill(); err != nil {
		return table.Row{}, err
	}
	after, keys := b.redis.used()
	if keys == 0 {
		return table.Row{}, fmt.Errorf("%s: no keys stored", name)
	}
	length, bytes := b.redis.sample()
	return table.Row{Name: name, Unit: "B/key", Value: measure.Sample{float64(after-before) / float64(keys)},
		Note: fmt.Sprintf("%d keys, value %d, name %d", keys, bytes, length)}, nil
}

// sample is how long the name of some user's key is, and its value.
func (c *cluster) sample() (name, value int64) {
	for range 100 {
		key, _ := c.Nodes[0].Do("RANDOMKEY").(string)
		if strings.Contains(key, "user-") { // else it is no counter
			value, _ = c.Nodes[0].Do("STRLEN", key).(int64)
			return int64(len(key)), value
		}
	}
	return 0, 0
}

const (
	fillers   = 8   // callers that fill
	fillBatch = 100 // wants in one of their calls
)

// fill acquires of every key, a times each, key by key, until all have had
// that or the time is over.
func (s *store) fill(ctx context.Context, a kept, keys int, most time.Duration) error {
	end := time.Now().Add(most)
	var next atomic.Int64 // batch
	var g errgroup.Group
	for range fillers {
		g.Go(func() error {
			b := newBatch(a.policy, fillBatch)
			for {
				begin := int(next.Add(1)-1) * fillBatch
				if begin >= keys || time.Now().After(end) {
					return nil
				}
				if err := b.fill(ctx, s, begin, a.acquires); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// fill acquires so often of each of the keys from this number on.
func (b *batch) fill(ctx context.Context, s *store, begin, acquires int) error {
	for i := range b.asks {
		b.key(i, uint32(begin+i))
	}
	for n := range acquires {
		for i := range b.asks {
			if b.asks[i].Policy.Limit.Spec().Algorithm == limit.Concurrency {
				b.asks[i].Op, b.asks[i].Holder = engine.Take, uint64(n+1)<<32|uint64(begin+i+1)
			}
		}
		if err := b.acquire(ctx, s.Store); err != nil {
			return err
		}
		for i := range b.grants {
			if b.grants[i].Status != lease.OK {
				return fmt.Errorf("acquire %d of key %s: %v", n+1, b.asks[i].Key, b.grants[i].Status)
			}
		}
	}
	return nil
}
