package enginetest

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// warmUp is how many decisions are made before: a cache has leases then.
const warmUp = 2_000_000

// perCall is how many asks a benchmark's call has.
const perCall = 100

// Benchmark measures decisions of a store in parallel, on so many keys at random;
// an iteration is one decision.
func Benchmark(b *testing.B, s engine.Store, spec limit.Spec, w lease.Want, keys int) {
	l, err := limit.New(spec)
	if err != nil {
		b.Fatal(err)
	}
	p := engine.NewPolicy("per-user", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
	names := make([][]byte, keys)
	for i := range names {
		names[i] = []byte("user-" + strconv.Itoa(i))
		for range min(max(warmUp/keys, 1), 1000) {
			s.Acquire(b.Context(), []engine.Ask{{Policy: p, Key: names[i], Want: w}}, make([]lease.Grant, 1))
		}
	}
	var seed atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(1, seed.Add(1)))
		asks, grants := make([]engine.Ask, perCall), make([]lease.Grant, perCall)
		for i := range asks {
			asks[i] = engine.Ask{Policy: p, Want: w}
		}
		n := 0
		for pb.Next() {
			asks[n].Key = names[random.IntN(keys)]
			if n++; n == perCall {
				s.Acquire(b.Context(), asks, grants)
				n = 0
			}
		}
	})
	used := processorTime(b) - before
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/used.Seconds()/1e6, "Mdecisions/core-s")
}

// processorTime is what this process used so far: unlike the time on the wall it
// does not depend on who else runs on the machine.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
