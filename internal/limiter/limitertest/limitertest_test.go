package limitertest_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/limitertest"
	"github.com/weirlimit/weir/internal/limiter/memory"
)

// forgetful is a store that does not learn, as a cluster whose shards can be lost.
type forgetful struct {
	counters atomic.Pointer[memory.Store]
	options  limitertest.Options
}

func (f *forgetful) lose() {
	f.counters.Store(memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30, Now: f.options.Now}))
}

func (f *forgetful) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	f.counters.Load().Acquire(ctx, asks, grants)
}

func (f *forgetful) Epoch() uint64 { return 1 }

// The cases for a store that forgets hold for one that does just that.
func TestForgetful(t *testing.T) {
	empty := func(o limitertest.Options) *forgetful {
		f := &forgetful{options: o}
		f.lose()
		return f
	}
	limitertest.Run(t, limitertest.Subject{
		New: func(_ testing.TB, o limitertest.Options) limiter.Store { return empty(o) },
		Two: func(_ testing.TB, o limitertest.Options) [2]limiter.Store {
			f := empty(o)
			return [2]limiter.Store{f, f}
		},
		Unbounded: true,
		Forgets:   true,
		Lose:      func(_ testing.TB, s limiter.Store) { s.(*forgetful).lose() },
	})
}
