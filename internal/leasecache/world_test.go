package leasecache_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// far is a store across a network, which notes when it was asked for each rule: it answers after a while, or not
// in time, or that nothing was decided.
type far struct {
	*memory.Store
	after  atomic.Int64 // time.Duration
	down   atomic.Bool
	called func(context.Context) // receives each call; nil: nothing does

	mu    sync.Mutex
	asked map[string][]time.Time // by rule
}

// newFar is 2 ms away.
func newFar(s *memory.Store) *far {
	f := &far{Store: s, asked: map[string][]time.Time{}}
	f.after.Store(int64(2 * time.Millisecond))
	return f
}

func newMemory() *memory.Store {
	return memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30})
}

func (f *far) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if f.called != nil {
		f.called(ctx)
	}
	f.note(asks)
	delay := time.Duration(f.after.Load())
	select {
	case <-ctx.Done():
		delay = -1
	case <-time.After(delay):
	}
	if delay < 0 || f.down.Load() {
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
		return
	}
	f.Store.Acquire(ctx, asks, grants)
}

func (f *far) note(asks []engine.Ask) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range asks {
		f.asked[asks[i].Policy.Rule] = append(f.asked[asks[i].Policy.Rule], time.Now())
	}
}

// asks is how often it was asked for a rule.
func (f *far) asks(rule string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked[rule])
}

// most is the largest number of asks for a rule in any ten seconds.
func (f *far) most(rule string) (worst int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, first := f.asked[rule], 0
	for i := range at {
		for at[i].Sub(at[first]) >= 10*time.Second {
			first++
		}
		worst = max(worst, i-first+1)
	}
	return worst
}

// allowed is the bound on asks in ten seconds: ten a second, a few more since pauses have a jitter of a tenth, and log2 of
// the limit in each of its windows.
func allowed(s limit.Spec) int {
	windows := float64(10*limit.Second)/float64(s.Period) + 1
	return 105 + int(math.Log2(float64(s.Count))*windows)
}

// inBubble runs a test in virtual time. What start begins ends after it, also when it fails.
func inBubble(t *testing.T, run func(t *testing.T, start func(leasecache.Config) *leasecache.Store)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		run(t, func(c leasecache.Config) *leasecache.Store {
			if c.MaxKeys == 0 {
				c.MaxKeys = 10_000
			}
			c.MaxBytes = 1 << 30
			f := leasecache.New(c)
			running.Go(func() { _ = f.Run(ctx) })
			return f
		})
	})
}

// onCache runs a test on a lease cache of a store that is 2 ms away.
func onCache(t *testing.T, run func(*testing.T, *leasecache.Store, *far)) {
	inBubble(t, func(t *testing.T, start func(leasecache.Config) *leasecache.Store) {
		behind := newFar(newMemory())
		run(t, start(leasecache.Config{Store: behind}), behind)
	})
}

// site is several replicas in front of one store.
type site struct {
	base   *memory.Store
	caches []*leasecache.Store
	stores []*far // what each of them sees of it
}

// onSite runs a test on so many replicas.
func onSite(t *testing.T, replicas int, run func(*testing.T, *site)) {
	inBubble(t, func(t *testing.T, start func(leasecache.Config) *leasecache.Store) {
		s := &site{base: newMemory()}
		for range replicas {
			c := newFar(s.base)
			s.stores, s.caches = append(s.stores, c), append(s.caches, start(leasecache.Config{Store: c}))
		}
		run(t, s)
	})
}

// most is the largest number of asks of a replica for a rule in any ten seconds.
func (s *site) most(rule string) (worst int) {
	for _, c := range s.stores {
		worst = max(worst, c.most(rule))
	}
	return worst
}

// ruled is a policy of a rule of that name.
func ruled(t testing.TB, name string, spec limit.Spec, c lease.Consistency) *engine.Policy {
	t.Helper()
	l := fatal.Get(limit.New(spec))(t)
	return engine.NewPolicy(name, 0, l, lease.NewTerms(l, c, 0, 0, 0))
}

func policyOf(t testing.TB, spec limit.Spec, c lease.Consistency) *engine.Policy {
	return ruled(t, "r", spec, c)
}

func one(p *engine.Policy, key string, group uint32) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte(key), Group: group, Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
}

// within asks within a budget.
func within(t testing.TB, s engine.Store, budget time.Duration, asks ...engine.Ask) []lease.Grant {
	ctx, cancel := context.WithTimeout(t.Context(), budget)
	defer cancel()
	grants := make([]lease.Grant, len(asks))
	s.Acquire(ctx, asks, grants)
	return grants
}

// ask asks for one unit within the usual time.
func ask(t testing.TB, s engine.Store, p *engine.Policy, key string) lease.Grant {
	return within(t, s, 100*time.Millisecond, one(p, key, 0))[0]
}

// charged is what a store has charged to a key.
func charged(t testing.TB, s engine.Store, p *engine.Policy, key string) int64 {
	g := within(t, s, time.Second, engine.Ask{Policy: p, Key: []byte(key)})[0]
	return g.Limit - g.Remaining
}
