package leasecache_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

func TestConformance(t *testing.T) { conformance(t, 0) }

// All of it holds as well where keys take each other's only place.
func TestConformanceWithoutRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	conformance(t, 1)
}

// conformance runs the suite on lease caches with room for so many keys, 0: as many as the memory store behind has.
func conformance(t *testing.T, maxKeys int) {
	enginetest.Run(t, enginetest.Subject{
		New: func(t testing.TB, o enginetest.Options) engine.Store {
			o.MaxKeys = cmp.Or(o.MaxKeys, 100_000)
			return start(t, leasecache.Config{
				Store:   memory.New(memory.Config{MaxKeys: o.MaxKeys, MaxBytes: 1 << 30, Now: o.Now}),
				MaxKeys: cmp.Or(maxKeys, o.MaxKeys),
				Now:     func() lease.Millis { return lease.Millis(o.Steady() / limit.Millisecond) },
			})
		},
		Cached: true,
		Asked:  func(s engine.Store) uint64 { return s.(*leasecache.Store).Stats().Asked },
		Settle: func(s engine.Store) {
			s.(*leasecache.Store).Flush(t.Context())
			time.Sleep(time.Millisecond) // Run may be sending too
		},
	})
}
