package leasecache_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
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

// far is a store across a network, which notes what it was asked: it answers after a while, or not in time, or that
// nothing was decided.
type far struct {
	*memory.Store
	after  atomic.Int64 // time.Duration
	down   atomic.Bool
	called func(context.Context) // receives each call; nil: nothing does

	mu    sync.Mutex
	asked map[string][]asked // by rule
}

// asked is an ask and when it came.
type asked struct {
	engine.Ask
	at time.Time
}

// newFar is 2 ms away.
func newFar(s *memory.Store) *far {
	f := &far{Store: s, asked: map[string][]asked{}}
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
	for _, a := range asks {
		f.asked[a.Policy.Rule] = append(f.asked[a.Policy.Rule], asked{a, time.Now()})
	}
}

// asks are those that came for a rule.
func (f *far) asks(rule string) []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked[rule])
}

// most is the largest number of asks for a rule in any ten seconds.
func (f *far) most(rule string) (worst int) {
	all, first := f.asks(rule), 0
	for i := range all {
		for all[i].at.Sub(all[first].at) >= 10*time.Second {
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

// start runs a lease cache until the test ends.
func start(t testing.TB, c leasecache.Config) *leasecache.Store {
	c.MaxKeys, c.MaxBytes = cmp.Or(c.MaxKeys, 10_000), 1<<30
	f := leasecache.New(c)
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(t.Context()) })
	t.Cleanup(running.Wait)
	return f
}

// onCache runs a test on a lease cache of a store that is 2 ms away.
func onCache(t *testing.T, run func(*testing.T, *leasecache.Store, *far)) {
	onSite(t, 1, func(t *testing.T, s *site) { run(t, s.caches[0], s.stores[0]) })
}

// shards is a store of two nodes that are 2 ms away, of which one hangs: the one that has the keys which begin with
// hung. It decides on each ask by itself, waits for the others until the deadline, and decides on a group without the
// members that have not answered after half of the time.
type shards struct {
	*far
	sound atomic.Bool // nothing hangs
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

// onShards runs a test on a lease cache of two nodes.
func onShards(t *testing.T, run func(*testing.T, *leasecache.Store, *shards)) {
	synctest.Test(t, func(t *testing.T) {
		behind := &shards{far: newFar(newMemory())}
		run(t, start(t, leasecache.Config{Store: behind}), behind)
	})
}

// site is several replicas with their judges in front of one store.
type site struct {
	base   *memory.Store
	caches []*leasecache.Store
	judges []engine.Judge
	stores []*far // what each of them sees of it
}

// onSite runs a test on so many replicas.
func onSite(t *testing.T, replicas int, run func(*testing.T, *site)) {
	onSmallSite(t, replicas, 10_000, run)
}

// onSmallSite runs a test on so many replicas that have room for so many keys each.
func onSmallSite(t *testing.T, replicas, room int, run func(*testing.T, *site)) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{base: newMemory()}
		for range replicas {
			behind := newFar(s.base)
			f := start(t, leasecache.Config{Store: behind, MaxKeys: room})
			s.stores, s.caches = append(s.stores, behind), append(s.caches, f)
			s.judges = append(s.judges, engine.NewJudge(f, f, func() int { return replicas }, nil, nil))
		}
		run(t, s)
	})
}

// fail has the store fail for all replicas, or answer again.
func (s *site) fail(yes bool) {
	for _, c := range s.stores {
		c.down.Store(yes)
	}
}

// asks is how often the replicas asked for a rule.
func (s *site) asks(rule string) (n int) {
	for _, c := range s.stores {
		n += len(c.asks(rule))
	}
	return n
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
