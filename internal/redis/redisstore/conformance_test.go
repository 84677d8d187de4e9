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
			return emptyStore(t, o, addrs, servers)
		},
		Unbounded: true,
		Lose:      func(testing.TB, engine.Store) { flush(servers) },
	}
}

// flush has servers lose all that they count.
func flush(servers []*redistest.Server) {
	for _, n := range servers {
		n.Do("FLUSHALL")
	}
}

func emptyStore(t testing.TB, o enginetest.Options, addrs []string, servers []*redistest.Server) *Store {
	t.Helper()
	flush(servers)
	return start(t, Config{Redis: topology.Config{Addrs: addrs, Timeout: 5 * time.Second}, Now: o.Now})
}

// cached puts the lease cache in front of the stores.
func cached(addrs []string, servers []*redistest.Server) enginetest.Subject {
	s := subject(addrs, servers)
	s.New = func(t testing.TB, o enginetest.Options) engine.Store {
		return cacheOf(t, o, emptyStore(t, o, addrs, servers))
	}
	s.Cached = true
	s.Settle = func(store engine.Store) {
		store.(*leasecache.Store).Flush(context.Background())
		time.Sleep(5 * time.Millisecond) // Run may be sending too
	}
	return s
}

func cacheOf(t testing.TB, o enginetest.Options, behind engine.Store) *leasecache.Store {
	f := leasecache.New(leasecache.Config{
		Store: behind, MaxKeys: 100_000, MaxBytes: 1 << 30, Timeout: plenty,
		Now: func() lease.Millis { return lease.Millis(o.Steady() / limit.Millisecond) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return f
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
	plain, leased := subject(c.Addrs(), c.Nodes), cached(c.Addrs(), c.Nodes)
	plain.Distant = true
	if !testing.Short() {
		t.Run("store", func(t *testing.T) { enginetest.Run(t, plain) })
	}
	t.Run("cached", func(t *testing.T) { enginetest.Run(t, leased) })
}
