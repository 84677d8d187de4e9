package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// Replicas share one limit to the unit, on the server's clock.
func replicasShareALimit(t *testing.T, c *redistest.Cluster) {
	var stores []*Store
	for range 3 {
		s := start(t, Config{Redis: topology.Config{Addrs: c.Addrs()}})
		knows(t, s)
		stores = append(stores, s)
	}
	for name, spec := range map[string]limit.Spec{
		"fixed":   {Algorithm: limit.FixedWindow, Count: 500, Period: limit.Day},
		"sliding": {Algorithm: limit.SlidingWindow, Count: 500, Period: limit.Day},
		"log":     {Algorithm: limit.SlidingLog, Count: 500, Period: limit.Hour},
		"bucket":  {Algorithm: limit.TokenBucket, Count: 1, Period: limit.Day, Burst: 500},
	} {
		t.Run(name, func(t *testing.T) {
			p := policyOf(t, name, spec)
			var granted atomic.Int64
			var all sync.WaitGroup
			for i := range 9 {
				all.Go(func() {
					for range 100 {
						g := acquire(t, stores[i%3], plenty, one(p, "k"))[0]
						if g.Status == lease.Unavailable {
							t.Errorf("%+v", g)
						}
						granted.Add(g.Granted)
					}
				})
			}
			all.Wait()
			if n := granted.Load(); n != 500 {
				t.Errorf("900 requests on 3 replicas were granted %d, want 500", n)
			}
		})
	}
}

// Each replica learns how many are alive, and keeps the number while Redis is away.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := Config{Redis: topology.Config{Addrs: []string{server.Addr}}}
	first := start(t, config)
	count := func(want int) {
		t.Helper()
		eventually(t, func() (bool, any) {
			n := first.Replicas()
			return n == want, fmt.Sprintf("%d replicas, want %d", n, want)
		})
	}
	count(1)
	second := start(t, config)
	count(2)
	third, err := New(config)
	fatal.If(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- third.Run(ctx) }()
	count(3)
	if n := second.Replicas(); n < 2 {
		t.Errorf("the second one counts %d", n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	count(2) // it took leave; one that is killed is missed after a few seconds
	server.Do("ZADD", replicasKey, time.Now().UnixMilli(), "one that was killed")
	count(3)
	server.Kill()
	time.Sleep(2 * beatEvery)
	if n := first.Replicas(); n != 3 {
		t.Errorf("%d replicas while Redis is away, want the 3 that there were", n)
	}
	server.Restart()
	count(2)
	if ttl := server.Do("PTTL", replicasKey).(int64); ttl <= 0 {
		t.Errorf("the replicas are kept for ever: ttl %d", ttl)
	}
}
