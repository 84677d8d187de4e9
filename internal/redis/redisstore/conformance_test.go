package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// subject makes empty stores on the same servers, one after the other.
func subject(addrs []string, servers []*redistest.Server) enginetest.Subject {
	return enginetest.Subject{
		New: func(t testing.TB, o enginetest.Options) engine.Store {
			onEach(servers, "FLUSHALL")
			return start(t, Config{Redis: topology.Config{Addrs: addrs, Timeout: 5 * time.Second}, Now: o.Now})
		},
		Unbounded: true,
		Lose:      func(testing.TB, engine.Store) { onEach(servers, "FLUSHALL") },
	}
}

// cached puts the lease cache in front of the stores.
func cached(s enginetest.Subject) enginetest.Subject {
	behind := s.New
	s.New = func(t testing.TB, o enginetest.Options) engine.Store {
		cache := leasecache.New(leasecache.Config{
			Store: behind(t, o), MaxKeys: 100_000, MaxBytes: 1 << 30, Timeout: plenty,
			Now: func() lease.Millis { return lease.Millis(o.Steady() / limit.Millisecond) },
		})
		runBeside(t, cache.Run)
		return cache
	}
	s.Cached = true
	s.Settle = func(store engine.Store) {
		store.(*leasecache.Store).Flush(context.Background())
		time.Sleep(5 * time.Millisecond) // Run may be sending too
	}
	return s
}

func TestConformanceSingle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	enginetest.Run(t, subject([]string{server.Addr}, []*redistest.Server{server}))
}

// A counter is one key, on one node: how it counts is seen at length with a single server.
func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	plain := subject(c.Addrs(), c.Nodes)
	plain.Distant = true
	if !testing.Short() {
		t.Run("store", func(t *testing.T) { enginetest.Run(t, plain) })
	}
	t.Run("cached", func(t *testing.T) { enginetest.Run(t, cached(plain)) })
}
