package redisstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// Replicas share one limit to the unit, on the server's clock.
func replicasShareALimit(t *testing.T, c *redistest.Cluster) {
	p := policyOf(t, "shared", limit.Spec{Algorithm: limit.SlidingLog, Count: 500, Period: limit.Hour})
	var granted atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		s := onCluster(t, c, Config{})
		for range 3 {
			all.Go(func() {
				for range 100 {
					g := acquire(t, s, plenty, one(p, "k"))[0]
					if g.Status == lease.Unavailable {
						t.Errorf("%+v", g)
					}
					granted.Add(g.Granted)
				}
			})
		}
	}
	all.Wait()
	if n := granted.Load(); n != 500 {
		t.Errorf("900 requests on 3 replicas were granted %d, want 500", n)
	}
}

// Each replica learns how many are alive, and keeps the number while Redis is away. A replica that leaves is missed
// at once, one that was killed a little later, also if Redis' clock was set back since.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	replica := func(t *testing.T) *Store {
		return launch(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}}, hasty)
	}
	first := replica(t)
	count := func(want int, again ...any) {
		t.Helper()
		eventually(t, func() (bool, any) {
			if len(again) > 0 {
				server.Do(again...)
			}
			n := first.Replicas()
			return n == want, fmt.Sprintf("%d replicas, want %d", n, want)
		})
	}
	second := replica(t)
	count(2)
	t.Run("one that leaves", func(t *testing.T) {
		replica(t)
		count(3)
		if n := second.Replicas(); n < 2 {
			t.Errorf("the second one counts %d", n)
		}
	})
	count(2)
	ahead := time.Now().Add(time.Hour).UnixMilli()
	server.Do("ZADD", replicasKey, ahead, "one that was killed before the clock was set back by an hour")
	count(3, "ZADD", replicasKey, time.Now().Add(hastily).UnixMilli(), "one whose master has another clock")
	count(2)
	count(3, "ZADD", replicasKey, time.Now().UnixMilli(), "one that was killed")
	server.Kill()
	time.Sleep(2 * hastily)
	if n := first.Replicas(); n != 3 {
		t.Errorf("%d replicas while Redis is away, want the 3 that there were", n)
	}
	server.Restart()
	count(2)
	if ttl := server.Do("PTTL", replicasKey).(int64); ttl <= 0 {
		t.Errorf("the replicas are kept for ever: ttl %d", ttl)
	}
}

// hasty has a store send its heartbeats sooner.
func hasty(s *Store) { s.beatEvery = hastily }

const hastily = 200 * time.Millisecond
