package redisstore

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// Each replica learns how many are alive, and keeps the number while Redis is away. A replica that leaves is missed
// at once, one that was killed a little later, also if Redis' clock was set back since.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	replica := func(t *testing.T) *Store {
		return launch(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}}, hasty)
	}
	first := replica(t)
	beat := func(name string, ahead time.Duration) func() {
		return func() { server.Do("ZADD", replicasKey, time.Now().Add(ahead).UnixMilli(), name) }
	}
	count := func(want int, again ...func()) {
		t.Helper()
		eventually(t, func() (bool, any) {
			for _, beat := range again {
				beat()
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
		eventually(t, func() (bool, any) { return second.Replicas() >= 2, "the second one counts fewer than two" })
	})
	count(2)
	beat("one that was killed before the clock was set back by an hour", time.Hour)()
	count(3, beat("one whose master has another clock", hastily))
	count(2)
	count(3, beat("one that was killed", 0))
	server.Kill()
	time.Sleep(2 * hastily)
	if n := first.Replicas(); n != 3 {
		t.Errorf("%d replicas while Redis is away, want the 3 that there were", n)
	}
	server.Restart()
	count(2)
	if ttl := server.Do("PTTL", replicasKey).(int64); ttl == -1 {
		t.Error("the replicas are kept for ever")
	}
}

// hasty has a store send its heartbeats sooner.
func hasty(s *Store) { s.beatEvery = hastily }

const hastily = 200 * time.Millisecond

// Each replica sees some of the PoPs, and all replicas learn how many there are, those that call two of them
// counted once. Redis loses everything, and no replica counts fewer.
func TestHoldersOfAllReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var mu sync.Mutex
	calls := [][]uint64{{1, 2, 3}, {3, 4, 5, 6}, {6}}
	var stores []*Store
	for i := range calls {
		live := func(time.Duration) []uint64 {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(calls[i])
		}
		stores = append(stores, launch(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}}, hasty, func(s *Store) { s.CountHolders(live) }))
	}
	await := func(want int) {
		t.Helper()
		for i, s := range stores {
			eventually(t, func() (bool, any) {
				n := s.Holders()
				return n == want, fmt.Sprintf("replica %d counts %d holders, want %d", i, n, want)
			})
		}
	}
	await(6)
	server.Do("FLUSHALL")
	for end := time.Now().Add(2 * hastily); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for i, s := range stores {
			if n := s.Holders(); n < 6 {
				t.Fatalf("replica %d counts %d holders after a loss, want the 6 that live", i, n)
			}
		}
	}
	mu.Lock()
	calls[1] = append(calls[1], 10, 11)
	mu.Unlock()
	await(8)
}

// More members are believed at once, fewer only after so many replies in a row.
func TestMemberCount(t *testing.T) {
	const missed = -1
	for name, c := range map[string]struct{ replies, want []int64 }{
		"they come":                         {[]int64{1, 2, 5}, []int64{1, 2, 5}},
		"one leaves":                        {[]int64{3, 2, 2, 2, 2, 2}, []int64{3, 3, 3, 3, 3, 2}},
		"what was lost comes back":          {[]int64{3, missed, missed, 1, 2, 3, 2, 2, 2, 2, 2}, []int64{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2}},
		"lost again, nobody notices":        {[]int64{3, 1, 2, 1, 3, 3}, []int64{3, 3, 3, 3, 3, 3}},
		"lost again before all have spoken": {[]int64{3, 1, 2, missed, 1, 2, 2, 2, 2}, []int64{3, 3, 3, 3, 3, 3, 3, 3, 2}},
		"fewer and fewer":                   {[]int64{9, 5, 4, 3, 2, 3}, []int64{9, 9, 9, 9, 9, 5}},
		"one leaves, and then all is lost":  {[]int64{3, 2, 2, 2, 1, 2, 2}, []int64{3, 3, 3, 3, 3, 2, 2}},
		"never":                             {[]int64{missed, missed, 1}, []int64{0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			count, got := newMemberCount(replicaReplies), int64(0)
			for i, n := range c.replies {
				if n == missed {
					count.missed()
				} else {
					got = count.counted(n)
				}
				if got != c.want[i] {
					t.Fatalf("reply %d, %d: %d members, want %d", i, n, got, c.want[i])
				}
			}
		})
	}
}
