package redisstore

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// BenchmarkAcquire measures the processor time of Redis for one want of 10,000 token buckets on three masters.
func BenchmarkAcquire(b *testing.B) {
	c := redistest.StartCluster(b, 3, 0)
	store := start(b, Config{Redis: topology.Config{Addrs: c.Addrs()}})
	policy := policyOf(b, "r", limit.Spec{Algorithm: limit.TokenBucket, Count: 60_000_000, Period: limit.Hour})
	for _, wants := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("wants=%d", wants), func(b *testing.B) {
			before := c.CPU()
			b.SetParallelism(max(4, 320/wants)) // goroutines of each processor
			b.RunParallel(func(pb *testing.PB) {
				asks := make([]engine.Ask, wants)
				for pb.Next() {
					for i := range asks {
						asks[i] = one(policy, fmt.Sprintf("user-%08d", rand.Uint32N(10_000)))
					}
					if g := acquire(b, store, 5*time.Second, asks...); g[0].Status != lease.OK {
						b.Error(statusOf(g))
					}
				}
			})
			b.ReportMetric(float64((c.CPU()-before).Nanoseconds())/1000/float64(b.N*wants), "redis-µs/want")
		})
	}
}

// BenchmarkBytes measures the bytes of Redis for a key whose limit of 100 units, or of 50 slots, is used up.
func BenchmarkBytes(b *testing.B) {
	c := redistest.StartCluster(b, 3, 0)
	store := start(b, Config{Redis: topology.Config{Addrs: c.Addrs()}})
	for _, a := range []limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog, limit.Concurrency} {
		b.Run(a.String(), func(b *testing.B) {
			onEach(c.Nodes, "FLUSHALL")
			before, _ := c.Memory()
			policy, acquires := policyOf(b, "r", limit.Spec{Algorithm: a, Count: 100, Period: limit.Day}), 100
			if a == limit.Concurrency {
				policy, acquires = policyOf(b, "r", limit.Spec{Algorithm: a, Count: 50, LeaseTTL: limit.Day}), 50
			}
			var last atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					key := last.Add(1)
					asks := make([]engine.Ask, acquires)
					for i := range asks {
						asks[i] = one(policy, fmt.Sprintf("user-%08d", key))
						if a == limit.Concurrency {
							asks[i].Op, asks[i].Holder = engine.Take, uint64(i+1)<<32|key
						}
					}
					if g := acquire(b, store, 5*time.Second, asks...); g[acquires-1].Status != lease.OK {
						b.Error(statusOf(g))
					}
				}
			})
			after, keys := c.Memory()
			b.ReportMetric(float64(after-before)/float64(keys), "B/key")
		})
	}
}
