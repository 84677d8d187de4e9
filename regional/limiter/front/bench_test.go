package front_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/limiter/front"
	"github.com/weirlimit/weir/regional/limiter/limitertest"
	"github.com/weirlimit/weir/regional/limiter/memory"
)

// BenchmarkFront measures an answer from memory: look-up by key and decision.
func BenchmarkFront(b *testing.B) {
	b.Run("hot", func(b *testing.B) {
		s := newBench(b)
		spec := limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Day}
		limitertest.Benchmark(b, s, spec, lease.Want{Need: 2, Waiting: 2, Want: 2}, 1)
		report(b, s)
	})
	b.Run("leased", func(b *testing.B) {
		s := newBench(b)
		spec := limit.Spec{Algorithm: limit.FixedWindow, Count: limit.MaxCount, Period: limit.Day, LeaseTTL: limit.Hour}
		limitertest.Benchmark(b, s, spec, lease.Want{Need: 1, Waiting: 1, Want: 1}, 10_000)
		report(b, s)
	})
	b.Run("denied", func(b *testing.B) {
		s := newBench(b)
		spec := limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Day}
		limitertest.Benchmark(b, s, spec, lease.Want{Need: 2, Waiting: 2, Want: 2}, 10_000)
		report(b, s)
	})
}

func newBench(b *testing.B) *front.Store {
	s := front.New(front.Config{
		Store:   memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30}),
		MaxKeys: 100_000, MaxBytes: 1 << 30,
	})
	go func() { _ = s.Run(b.Context()) }()
	return s
}

// report says how many decisions went to the store after all.
func report(b *testing.B, s *front.Store) {
	b.ReportMetric(float64(s.Stats().Asked)/float64(b.N), "asked/op")
}
