package redisstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/redistest"
)

// More replicas are believed at once, fewer only after all had time to show that they
// live.
func TestCensus(t *testing.T) {
	const missed = -1
	type beat struct {
		at            time.Duration // in milliseconds
		outcome, want int64
	}
	for name, beats := range map[string][]beat{
		"they come": {{0, 1, 1}, {1000, 2, 2}, {2000, 5, 5}},
		"one leaves": {
			{0, 3, 3}, {1000, 2, 3}, {2000, 2, 3}, {3000, 2, 3}, {4000, 2, 3}, {4499, 2, 3}, {4500, 2, 2},
		},
		"what was lost comes back": {
			{0, 3, 3}, {1000, missed, 3}, {2000, missed, 3}, {3000, 1, 3}, {4000, 2, 3}, {5000, 3, 3},
			{6500, 2, 3}, {9999, 2, 3}, {10_000, 2, 2},
		},
		"lost again before all have spoken": {
			{0, 3, 3}, {1000, 1, 3}, {2000, 2, 3}, {3000, missed, 3}, {4500, 1, 3}, {5500, 2, 3}, {8000, 2, 2},
		},
		"lost while nobody looked": {
			{0, 3, 3}, {1000, 2, 3}, {4600, 1, 3}, {6600, 2, 3}, {8099, 2, 3}, {8100, 2, 2},
		},
		"fewer and fewer":                  {{0, 9, 9}, {1000, 5, 9}, {2000, 4, 9}, {3000, 3, 9}, {4500, 2, 9}, {5000, 3, 9}, {7999, 3, 9}, {8000, 3, 3}},
		"one leaves, and then all is lost": {{0, 3, 3}, {1000, 2, 3}, {2000, 2, 3}, {3000, 2, 3}, {4500, 1, 3}, {5500, 2, 3}, {8000, 2, 2}},
		"never":                            {{0, missed, 0}, {1000, missed, 0}, {2000, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var c replicaCount
			for i, b := range beats {
				if b.outcome == missed {
					c.missed()
				} else {
					c.answered(b.outcome, b.at*time.Millisecond)
				}
				if c.replicas != b.want {
					t.Fatalf("beat %d at %d ms: %d replicas, want %d", i, b.at, c.replicas, b.want)
				}
			}
		})
	}
}

// Redis loses everything, and no replica ever believes that it is alone.
func TestReplicasOutliveALoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores []*Store
	for range 3 {
		stores = append(stores, start(t, Config{Addrs: []string{server.Addr}}))
	}
	eventually(t, func() string {
		for _, s := range stores {
			if n := s.Replicas(); n != 3 {
				return fmt.Sprintf("%d replicas, want 3", n)
			}
		}
		return ""
	})
	for _, lose := range []func(){
		func() { server.Do("FLUSHALL") },
		func() { server.Kill(); time.Sleep(beatEvery / 2); server.Restart() },
	} {
		lose()
		for end := time.Now().Add(2 * beatEvery); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			for i, s := range stores {
				if n := s.Replicas(); n != 3 {
					t.Fatalf("replica %d counts %d after a loss, want the 3 that live", i, n)
				}
			}
		}
	}
}

// Redis' clock is set back by an hour: a replica that was killed just before is not counted for
// an hour, as its last heartbeat would have it.
func TestHeartbeatsFromTheFuture(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := start(t, Config{Addrs: []string{server.Addr}})
	count := func(want int) {
		t.Helper()
		eventually(t, func() string {
			if n := s.Replicas(); n != want {
				return fmt.Sprintf("%d replicas, want %d", n, want)
			}
			return ""
		})
	}
	server.Do("ZADD", replicasKey, time.Now().Add(2*time.Second).UnixMilli(), "one whose master had another clock")
	count(2)
	server.Do("ZADD", replicasKey, time.Now().Add(time.Hour).UnixMilli(), "one that was killed before the clock was set back")
	count(1)
}

// notes is a log in memory.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}
