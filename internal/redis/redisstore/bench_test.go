package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// BenchmarkAcquire measures calls of so many asks for 10,000 keys from 64 callers, or
// as many as the queue has room for; an iteration is one ask. Beside the time on the
// wall it reports the processor time of this process and that of Redis, and how many
// asks a pipeline had.
func BenchmarkAcquire(b *testing.B) {
	server := redistest.Start(b)
	for name, spec := range map[string]limit.Spec{
		"fixed":  {Algorithm: limit.FixedWindow, Count: 1_000_000, Period: limit.Minute},
		"bucket": {Algorithm: limit.TokenBucket, Count: 1_000_000, Period: limit.Minute},
	} {
		for _, lanes := range []int{1, 2} {
			for _, perCall := range []int{1, 10, 100} {
				b.Run(fmt.Sprintf("%s/lanes=%d/asks=%d", name, lanes, perCall), func(b *testing.B) {
					s := start(b, Config{Redis: topology.Config{Addrs: []string{server.Addr}}, Lanes: lanes})
					benchmarkAcquire(b, s, server, policyOf(b, name, spec), perCall)
				})
			}
		}
	}
}

func benchmarkAcquire(b *testing.B, s *Store, server *redistest.Server, p *engine.Policy, perCall int) {
	keys := make([][]byte, 10_000)
	for i := range keys {
		keys[i] = strconv.AppendInt([]byte("user-"), int64(i), 10)
	}
	var next, failed atomic.Int64
	callers := min(64, defaultQueue/2/perCall)
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	b.ResetTimer()
	before, mine, theirs := s.Stats(), processorTime(b), server.CPU()
	b.RunParallel(func(pb *testing.PB) {
		asks, grants := make([]engine.Ask, perCall), make([]lease.Grant, perCall)
		n := 0
		for pb.Next() {
			asks[n] = engine.Ask{Policy: p, Key: keys[next.Add(7919)%int64(len(keys))], Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
			if n++; n < perCall {
				continue
			}
			n = 0
			s.Acquire(context.Background(), asks, grants)
			for i := range grants {
				if grants[i].Status == lease.Unavailable {
					failed.Add(1)
				}
			}
		}
	})
	b.StopTimer()
	st := s.Stats()
	asked := float64(st.Asks - before.Asks)
	b.ReportMetric(float64((processorTime(b)-mine).Nanoseconds())/asked, "cpu-ns/ask")
	b.ReportMetric(float64((server.CPU()-theirs).Nanoseconds())/asked, "redis-ns/ask")
	b.ReportMetric(asked/float64(st.Pipelines-before.Pipelines), "asks/pipeline")
	if n := failed.Load(); n > 0 {
		b.Errorf("%d of %.0f asks were unavailable: %v", n, asked, st.Unavailable)
	}
}

// processorTime is what this process used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
