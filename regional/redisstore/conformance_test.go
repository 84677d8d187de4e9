package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/front"
	"github.com/weirlimit/weir/regional/limiter/limitertest"
	"github.com/weirlimit/weir/regional/redisstore/redistest"
)

// subject makes empty stores on the same servers, one after the other.
func subject(addrs []string, servers []*redistest.Server) limitertest.Subject {
	return limitertest.Subject{
		New: func(t testing.TB, o limitertest.Options) limiter.Store {
			return emptyStore(t, o, addrs, servers)
		},
		Unbounded: true,
		Forgets:   true,
	}
}

func emptyStore(t testing.TB, o limitertest.Options, addrs []string, servers []*redistest.Server) *Store {
	t.Helper()
	for _, n := range servers {
		n.Do("FLUSHALL")
	}
	s := start(t, Config{Addrs: addrs, Now: o.Now, Timeout: 5 * time.Second})
	return s
}

// cached puts the lease cache in front of the stores.
func cached(addrs []string, servers []*redistest.Server) limitertest.Subject {
	s := subject(addrs, servers)
	s.New = func(t testing.TB, o limitertest.Options) limiter.Store {
		behind := emptyStore(t, o, addrs, servers)
		f := front.New(front.Config{
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
	s.Cached = true
	s.Settle = func(store limiter.Store) {
		store.(*front.Store).Flush(context.Background())
		time.Sleep(5 * time.Millisecond) // Run may be sending too
	}
	return s
}

func TestConformanceSingle(t *testing.T) {
	server := redistest.Start(t)
	limitertest.Run(t, subject([]string{server.Addr}, []*redistest.Server{server}))
}

func TestConformanceCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, 0)
	t.Run("store", func(t *testing.T) { limitertest.Run(t, subject(c.Addrs(), c.Nodes)) })
	t.Run("cached", func(t *testing.T) { limitertest.Run(t, cached(c.Addrs(), c.Nodes)) })
}
