package leasecache_test

import (
	"context"
	"testing"

	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// BenchmarkCache measures an answer from memory: look-up by key and decision. One
// key is the flood that a lease cache is for; what 10,000 cost more are the caches of
// the processor. With room for half of the keys most denials are remembered without an
// entry, and most leases are taken from one key for another.
func BenchmarkCache(b *testing.B) {
	leased := limit.Spec{Algorithm: limit.FixedWindow, Count: limit.MaxCount, Period: limit.Day}
	denied := limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Day}
	for _, c := range []struct {
		name  string
		spec  limit.Spec
		units int64
		keys  int
		room  int
	}{
		{"leased/keys=1", leased, 1, 1, 100_000},
		{"denied/keys=1", denied, 2, 1, 100_000},
		{"leased/keys=10000", leased, 1, 10_000, 100_000},
		{"denied/keys=10000", denied, 2, 10_000, 100_000},
		{"leased/keys=10000/room=5000", leased, 1, 10_000, 5000},
		{"denied/keys=10000/room=5000", denied, 1, 10_000, 5000},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newBench(b, c.room)
			enginetest.Benchmark(b, s, c.spec, lease.Want{Need: c.units, Waiting: c.units, Want: c.units}, c.keys)
			b.ReportMetric(float64(s.Stats().Asked)/float64(b.N), "asked/op")
		})
	}
}

func newBench(b *testing.B, room int) *leasecache.Store {
	s := leasecache.New(leasecache.Config{
		Store:   memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30}),
		MaxKeys: room, MaxBytes: 1 << 30,
	})
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	go func() { _ = s.Run(ctx) }()
	return s
}
