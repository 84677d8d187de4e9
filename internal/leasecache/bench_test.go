package leasecache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// BenchmarkCache measures decisions from memory in parallel, 100 asks a call. One key is the flood that a lease cache is
// for; what 10,000 cost more are the caches of the processor. With room for half of the keys most denials are remembered
// without an entry, and most leases are taken from one key for another.
func BenchmarkCache(b *testing.B) {
	for _, c := range []struct {
		name       string
		count      int64
		units      int64
		keys, room int
	}{
		{"leased/keys=1", limit.MaxCount, 1, 1, 100_000},
		{"denied/keys=1", 1, 2, 1, 100_000},
		{"leased/keys=10000", limit.MaxCount, 1, 10_000, 100_000},
		{"denied/keys=10000", 1, 2, 10_000, 100_000},
		{"leased/keys=10000/room=5000", limit.MaxCount, 1, 10_000, 5000},
		{"denied/keys=10000/room=5000", 1, 1, 10_000, 5000},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := leasecache.New(leasecache.Config{Store: newMemory(), MaxKeys: c.room, MaxBytes: 1 << 30})
			ctx, cancel := context.WithCancel(b.Context())
			b.Cleanup(cancel)
			go func() { _ = s.Run(ctx) }()
			p := policyOf(b, limit.Spec{Algorithm: limit.FixedWindow, Count: c.count, Period: limit.Day}, lease.Leased)
			decide(b, s, engine.Ask{Policy: p, Want: lease.Want{Need: c.units, Waiting: c.units, Want: c.units}}, c.keys)
			b.ReportMetric(float64(s.Stats().Asked)/float64(b.N), "asked/op")
		})
	}
}

// decide measures asks for so many keys at random, when each key has been asked for; an iteration is one decision.
func decide(b *testing.B, s engine.Store, a engine.Ask, keys int) {
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "user-%d", i)
		for range min(2_000_000/keys, 1000) {
			a.Key = names[i]
			s.Acquire(b.Context(), []engine.Ask{a}, make([]lease.Grant, 1))
		}
	}
	var seed atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(1, seed.Add(1)))
		var asks [100]engine.Ask
		var grants [100]lease.Grant
		for n := 0; pb.Next(); {
			asks[n] = a
			asks[n].Key = names[random.IntN(keys)]
			if n++; n == len(asks) {
				s.Acquire(b.Context(), asks[:], grants[:])
				n = 0
			}
		}
	})
	used := processorTime(b) - before
	b.ReportMetric(float64(b.N)/used.Seconds()/1e6, "Mdecisions/core-s")
}

// processorTime is what this process used so far: unlike the time on the wall it does not depend on who else runs on the
// machine.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
