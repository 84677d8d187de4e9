package front_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/front"
	"github.com/weirlimit/weir/regional/limiter/memory"
)

// shards is a store of two nodes that are 2 ms away, of which one hangs: the one
// that has the keys which begin with hung. It decides on each ask by itself, waits
// for the others until the deadline, and decides on a group without the members
// that have not answered after half of the time.
type shards struct {
	*memory.Store

	mu    sync.Mutex
	asked []limiter.Ask
}

func hangs(a *limiter.Ask) bool { return strings.HasPrefix(string(a.Key), "hung") }

func (s *shards) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	s.note(asks)
	time.Sleep(2 * time.Millisecond)
	pause, hung := time.Duration(0), 0
	deadline, _ := ctx.Deadline()
	var well []limiter.Ask
	for i := range asks {
		if !hangs(&asks[i]) {
			well = append(well, asks[i])
			continue
		}
		hung++
		if pause = time.Until(deadline); limiter.GroupLen(asks) == len(asks) && hung < len(asks) {
			pause /= 2
		}
	}
	time.Sleep(pause)
	decided := make([]lease.Grant, len(well))
	s.Store.Acquire(ctx, well, decided)
	for i := range asks {
		if grants[i] = (lease.Grant{Status: lease.Unavailable}); !hangs(&asks[i]) {
			grants[i], decided = decided[0], decided[1:]
		}
	}
}

func (s *shards) note(asks []limiter.Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, asks...)
}

// onShards runs a test in virtual time on a front of two nodes.
func onShards(t *testing.T, run func(*testing.T, *front.Store, *shards)) {
	synctest.Test(t, func(t *testing.T) {
		behind := &shards{Store: memory.New(memory.Config{MaxKeys: 10_000, MaxBytes: 1 << 30})}
		f := front.New(front.Config{Store: behind, MaxKeys: 10_000, MaxBytes: 1 << 30})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = f.Run(ctx) })
		run(t, f, behind)
		stop()
		running.Wait()
	})
}

// within asks within a budget.
func within(t testing.TB, s limiter.Store, budget time.Duration, asks ...limiter.Ask) []lease.Grant {
	ctx, cancel := context.WithTimeout(t.Context(), budget)
	defer cancel()
	grants := make([]lease.Grant, len(asks))
	s.Acquire(ctx, asks, grants)
	return grants
}

func one(p *limiter.Policy, key string, group uint32) limiter.Ask {
	return limiter.Ask{Policy: p, Key: []byte(key), Group: group, Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
}
