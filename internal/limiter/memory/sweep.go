package memory

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter/table"
)

const (
	// sweepInterval is how often a part of the table is looked through, and
	// sweepRounds in how many parts: all of it every 10 s, the usual ttl.
	sweepInterval = 100 * time.Millisecond
	sweepRounds   = 100
	// roomStep is how many are looked at for one new key when the table is full.
	// A flood of new keys pays for its own room, but not much for each.
	roomStep = 16
)

// Run forgets counters that are as good as new, a few at a time, until ctx ends.
// Without it they are only forgotten when there is no room.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.Sweep(1.0 / sweepRounds)
		}
	}
}

// Sweep looks through such a part of every shard, 0 to 1, and forgets what is as
// good as new.
func (s *Store) Sweep(part float64) {
	s.table.Sweep(part, func(shard *table.Shard[value], n int) { s.scan(shard, s.now(), n) })
}

// makeRoom tries to make room for so many more bytes, or one more key.
func (s *Store) makeRoom(shard *table.Shard[value], now limit.Micros, more int) bool {
	return s.scan(shard, now, roomStep) > 0 && !shard.Over(more)
}

// scan forgets those of the next n counters that are as good as new.
func (s *Store) scan(shard *table.Shard[value], now limit.Micros, n int) (forgotten int) {
	shard.Scan(n, func(e *table.Entry[value]) {
		if !e.Value.busy && e.Value.fresh(e.Policy.Limit, now) {
			shard.Took(-e.Value.extra)
			shard.Remove(e)
			forgotten++
		}
	})
	s.evicted.Add(uint64(forgotten))
	return forgotten
}

// fresh reports whether nobody could tell the counter from a new one: it admits
// as much, and no lease is out that could come back.
func (v *value) fresh(l *limit.Limit, now limit.Micros) bool {
	if v.slots != nil {
		return v.slots.Fresh(l, now)
	}
	return (v.counter.Leased == 0 || now >= v.counter.OutUntil) && l.Fresh(v.counter.State, now)
}
