package enginetest_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
)

// forgetful is a store that does not learn, as a cluster whose shards can be lost.
type forgetful struct {
	counters atomic.Pointer[memory.Store]
	options  enginetest.Options
}

func (f *forgetful) lose() {
	f.counters.Store(memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30, Now: f.options.Now}))
}

func (f *forgetful) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	f.counters.Load().Acquire(ctx, asks, grants)
}

func (f *forgetful) Epoch() uint64 { return 1 }

// The cases for a store that forgets hold for one that does just that.
func TestForgetful(t *testing.T) {
	empty := func(o enginetest.Options) *forgetful {
		f := &forgetful{options: o}
		f.lose()
		return f
	}
	enginetest.Run(t, enginetest.Subject{
		New:       func(_ testing.TB, o enginetest.Options) engine.Store { return empty(o) },
		Unbounded: true,
		Lose:      func(_ testing.TB, s engine.Store) { s.(*forgetful).lose() },
	})
}
