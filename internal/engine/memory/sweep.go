package memory

import (
	"context"

	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// sweepCalls is in how many parts the table is scanned: all of it every 10 s, the usual
	// ttl.
	sweepCalls = 100
	// roomStep is how many counters are scanned for one new key when the table is full.
	// So a flood of new keys makes its own room, at a small cost for each.
	roomStep = 16
)

// Run evicts counters that are as good as new, a few at a time, until ctx ends. Without it
// they are evicted only when there is no room.
func (s *Store) Run(ctx context.Context) error {
	table.SweepAll(ctx, sweepCalls, s.Sweep)
	return nil
}

// Sweep scans this part of every shard, 0 to 1, and evicts counters that are as good as new.
func (s *Store) Sweep(part float64) {
	s.table.Sweep(part, func(shard *table.Shard[value], n int) { s.scan(shard, s.now(), n) })
}

// evict tries to make room for more bytes, or for one more key.
func (s *Store) evict(shard *table.Shard[value], now limit.Micros, more int) bool {
	return s.scan(shard, now, roomStep) > 0 && !shard.Over(more)
}

// scan evicts those of the next n counters that are as good as new.
func (s *Store) scan(shard *table.Shard[value], now limit.Micros, n int) (evicted int) {
	shard.Scan(n, func(e *table.Entry[value]) {
		if !e.Value.busy && e.Value.fresh(e.Policy.Limit, now) {
			shard.Took(-e.Value.extra)
			shard.Remove(e)
			evicted++
		}
	})
	s.evicted.Add(uint64(evicted))
	return evicted
}

// fresh reports whether the counter is as good as new: it admits as much, and no lease is
// out that could come back.
func (v *value) fresh(l *limit.Limit, now limit.Micros) bool {
	if v.slots != nil {
		return v.slots.Fresh(l, now)
	}
	if v.counter.Lockout != nil && v.counter.Lockout.Ends > now {
		return false
	}
	return (v.counter.Leased == 0 || now >= v.counter.OutUntil) && l.Fresh(v.counter.State, now)
}
