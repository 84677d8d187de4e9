package leasecache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/telemetry"
)

// An ask of the store has the spans of all callers that wait for its answer; one that memory
// answers, or behind which nobody is traced, has none.
func TestTrace(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour}, lease.Exact)
		var mu sync.Mutex
		var seen []int
		behind.called = func(ctx context.Context) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, len(telemetry.Waiting(ctx)))
		}
		var all sync.WaitGroup
		caller := func(n int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if n > 0 {
				ctx = telemetry.WithWaiting(ctx, telemetry.ParseTraceParents(fmt.Sprintf("00-%032x-%016x-01", n, n)))
			}
			asks := []engine.Ask{{Policy: p, Key: []byte("k"), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}
			f.Acquire(ctx, asks, make([]lease.Grant, 1))
		}
		caller(0)
		all.Go(func() { caller(1) })
		time.Sleep(time.Millisecond) // its ask is out: the others wait for the next
		for n := range 4 {
			all.Go(func() { caller(n) })
		}
		all.Wait()
		if want := "[0 1 3]"; fmt.Sprint(seen) != want {
			t.Errorf("the asks had %v spans, want %s", seen, want)
		}
	})
}
