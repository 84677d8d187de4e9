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
