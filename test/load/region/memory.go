//go:build linux

package region

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

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
func (b *bench) memory() []table.Section {
	store := b.openStore()
	var rows []table.Row
	for _, a := range kepts {
		row := b.bytesOf(a.name, func() { store.fill(a) })
		row.Note = fmt.Sprintf("model %d; %s", a.model, row.Note)
		rows = append(rows, row)
	}
	b.redis.flush()
	return []table.Section{{Title: fmt.Sprintf("Memory of Redis, L = %d, C = %d, three masters", storedUnits, storedSlots), Rows: rows}}
}

// kept is an algorithm with so many acquires of each key.
type kept struct {
	name     string
	spec     limit.Spec
	acquires int
	model    int // bytes of state per key
}

var kepts = []kept{
	{"token bucket", daily(limit.TokenBucket), 1, 16},
	{"fixed window", daily(limit.FixedWindow), 1, 16},
	{"sliding window", daily(limit.SlidingWindow), 1, 16},
	{"sliding log", daily(limit.SlidingLog), storedUnits, 8 * storedUnits},
	{"concurrency", limit.Spec{Algorithm: limit.Concurrency, Count: storedSlots, LeaseTTL: limit.Day}, storedSlots, 16 * storedSlots},
}

func daily(a limit.Algorithm) limit.Spec {
	return limit.Spec{Algorithm: a, Count: storedUnits, Period: limit.Day}
}

// bytesOf is a row of the bytes per key that fill has added to an empty Redis.
func (b *bench) bytesOf(name string, fill func()) table.Row {
	b.redis.flush()
	b.Wait(200 * time.Millisecond) // connections' buffers shrink
	before, _ := b.redis.Memory()
	fill()
	after, keys := b.redis.Memory()
	if keys == 0 {
		b.Fatalf("%s: no keys stored", name)
	}
	length, bytes := b.redis.sample()
	return table.Row{Name: name, Unit: "B/key", Value: measure.Sample{float64(after-before) / float64(keys)},
		Note: fmt.Sprintf("%d keys, value %d, name %d", keys, bytes, length)}
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
func (s *store) fill(a kept) {
	end := time.Now().Add(s.storedTime)
	var next atomic.Int64 // batch
	s.Together(fillers, func(int) {
		for b := newBatch(policyOf(a.name, a.spec), fillBatch); ; {
			begin := int(next.Add(1)-1) * fillBatch
			if begin >= s.stored || time.Now().After(end) {
				return
			}
			s.Must(b.fill(s.Ctx, s.Store, begin, a.acquires))
		}
	})
}

// fill acquires so often of each of the keys from this number on.
func (b *batch) fill(ctx context.Context, s engine.Store, begin, acquires int) error {
	for i := range b.asks {
		b.key(i, uint32(begin+i))
	}
	for n := range acquires {
		for i := range b.asks {
			if b.asks[i].Policy.Limit.Concurrent() {
				b.asks[i].Op, b.asks[i].Holder = engine.Take, uint64(n+1)<<32|uint64(begin+i+1)
			}
		}
		if err := b.acquire(ctx, s); err != nil {
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
