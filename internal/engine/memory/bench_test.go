package memory_test

import (
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// BenchmarkMemoryStore measures a decision: 100 asks a call, 10,000 keys.
func BenchmarkMemoryStore(b *testing.B) {
	for _, c := range []struct {
		name string
		spec limit.Spec
		want lease.Want
	}{
		{"bucket", limit.Spec{Count: 1000, Period: limit.Minute}, lease.Want{Need: 1, Waiting: 1, Want: 8}},
		{"fixed", limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Minute}, lease.Want{Need: 1, Waiting: 1, Want: 8}},
		{"sliding", limit.Spec{Algorithm: limit.SlidingWindow, Count: 1000, Period: limit.Minute}, lease.Want{Need: 1, Waiting: 1, Want: 8}},
		{"log", limit.Spec{Algorithm: limit.SlidingLog, Count: 100, Period: limit.Minute}, lease.Want{Need: 1, Waiting: 1, Want: 8}},
		{"denied", limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Day}, lease.Want{Need: 2, Waiting: 2, Want: 2}},
	} {
		b.Run(c.name, func(b *testing.B) { enginetest.Benchmark(b, newBig(), c.spec, c.want, 10_000) })
	}
	b.Run("million", func(b *testing.B) {
		enginetest.Benchmark(b, newBig(), limit.Spec{Count: 1000, Period: limit.Minute}, lease.Want{Need: 1, Waiting: 1, Want: 8}, 1_000_000)
	})
}

// BenchmarkNewKeys measures decisions on keys that are asked for once, in a table
// that is full: each has to find room.
func BenchmarkNewKeys(b *testing.B) {
	l, _ := limit.New(limit.Spec{Count: 1_000_000, Period: limit.Second})
	p := engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
	store := memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30})
	asks := []engine.Ask{{Policy: p, Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}
	grants := make([]lease.Grant, 1)
	var key []byte
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		key = strconv.AppendInt(append(key[:0], "user-"...), int64(n), 10)
		asks[0].Key = key
		store.Acquire(b.Context(), asks, grants)
	}
	b.ReportMetric(float64(store.Stats().Refused)/float64(n), "refused/op")
}

func newBig() *memory.Store { return memory.New(memory.Config{MaxKeys: 2_000_000, MaxBytes: 4 << 30}) }

// BenchmarkSave measures a save of a million counters to nowhere: what it costs, how large
// it is, and for how long a decision waits meanwhile.
func BenchmarkSave(b *testing.B) {
	const keys = 1_000_000
	s := newBig()
	l, _ := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: 366 * limit.Day})
	p := engine.NewPolicy("per-user", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
	asks := []engine.Ask{{Policy: p, Want: lease.Want{Need: 1, Waiting: 1, Want: 8}}}
	grants := make([]lease.Grant, 1)
	for i := range keys {
		asks[0].Key = strconv.AppendInt(append(asks[0].Key[:0], "user-"...), int64(i), 10)
		s.Acquire(b.Context(), asks, grants)
	}
	size := 0
	for b.Loop() {
		size = 0
		s.Save(func(r []byte) { size += len(r) })
	}
	b.ReportMetric(float64(size)/keys, "bytes/key")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}
