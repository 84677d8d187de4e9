package memory_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/limitertest"
	"github.com/weirlimit/weir/internal/limiter/memory"
)

// newStore makes a store as a conformance case wants it.
func newStore(o limitertest.Options) *memory.Store {
	if o.MaxKeys == 0 {
		o.MaxKeys = 100_000
	}
	return memory.New(memory.Config{MaxKeys: o.MaxKeys, MaxBytes: 1 << 30, Now: o.Now})
}

func TestConformance(t *testing.T) {
	limitertest.Run(t, limitertest.Subject{
		New: func(_ testing.TB, o limitertest.Options) limiter.Store { return newStore(o) },
		Two: func(_ testing.TB, o limitertest.Options) [2]limiter.Store {
			s := newStore(o)
			return [2]limiter.Store{s, s}
		},
	})
}
