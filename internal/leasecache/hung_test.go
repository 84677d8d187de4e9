package leasecache_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// shards is a store of two nodes that are 2 ms away, of which one hangs: the one
// that has the keys which begin with hung. It decides on each ask by itself, waits
// for the others until the deadline, and decides on a group without the members
// that have not answered after half of the time.
type shards struct {
	*memory.Store
	sound atomic.Bool // nothing hangs

	mu    sync.Mutex
	asked []engine.Ask
}

func (s *shards) hangs(a *engine.Ask) bool {
	return strings.HasPrefix(string(a.Key), "hung") && !s.sound.Load()
}

func (s *shards) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	s.note(asks)
	time.Sleep(2 * time.Millisecond)
	pause, hung := time.Duration(0), 0
	deadline, _ := ctx.Deadline()
	var well []engine.Ask
	lost := make([]bool, len(asks))
	for i := range asks {
		if !s.hangs(&asks[i]) {
			well = append(well, asks[i])
			continue
		}
		lost[i] = true
		hung++
		if pause = time.Until(deadline); engine.GroupLen(asks) == len(asks) && hung < len(asks) {
			pause /= 2
		}
	}
	time.Sleep(pause)
	decided := make([]lease.Grant, len(well))
	s.Store.Acquire(ctx, well, decided)
	for i := range asks {
		if grants[i] = (lease.Grant{Status: lease.Unavailable}); !lost[i] {
			grants[i], decided = decided[0], decided[1:]
		}
	}
}

func (s *shards) note(asks []engine.Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, asks...)
}

// onShards runs a test on a lease cache of two nodes.
func onShards(t *testing.T, run func(*testing.T, *leasecache.Store, *shards)) {
	inBubble(t, func(t *testing.T, start func(leasecache.Config) *leasecache.Store) {
		behind := &shards{Store: newMemory()}
		run(t, start(leasecache.Config{Store: behind}), behind)
	})
}

// A node that hangs makes its own keys unavailable, and no others: neither of the
// same call nor of the same request, whatever their consistency.
func TestHungNodeHoldsUpNoOther(t *testing.T) {
	hour := limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour}
	kinds := []lease.Consistency{lease.Leased, lease.Exact}
	for _, budget := range []time.Duration{20, 50, 100, 200} {
		for _, group := range []uint32{0, 1} {
			for _, hung := range kinds {
				for _, well := range kinds {
					t.Run(fmt.Sprintf("%d ms, group %d, hung %v, well %v", budget, group, hung, well), func(t *testing.T) {
						onShards(t, func(t *testing.T, f *leasecache.Store, behind *shards) {
							a, b := ruled(t, "a", hour, hung), ruled(t, "b", hour, well)
							g := within(t, f, budget*time.Millisecond, one(a, "hung", group), one(b, "well", group))
							if g[0].Status != lease.Unavailable || g[1].Granted != 1 {
								t.Errorf("beside a node that hangs: %+v", g)
							}
							time.Sleep(time.Second)
							if units := charged(t, behind.Store, b, "well"); well == lease.Exact && units != 1 {
								t.Errorf("%d were charged, want 1", units)
							}
						})
					})
				}
			}
		}
	}
}
