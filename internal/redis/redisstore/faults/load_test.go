package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// counter is one key of one rule, which the load asks for single units.
type counter struct {
	policy *engine.Policy
	key    string
	slot   int
}

func (c *counter) String() string { return c.policy.Rule + ":" + c.key }

func (c *counter) limit() int64 { return c.policy.Limit.Spec().Count }

// policies has a limit of each algorithm that counts units. None is whole again before a test is over.
var policies = []*engine.Policy{
	exactly("fixed", limit.Spec{Algorithm: limit.FixedWindow, Count: 40, Period: 300 * limit.Day}),
	exactly("bucket", limit.Spec{Algorithm: limit.TokenBucket, Count: 40, Period: limit.Day}),
	exactly("sliding", limit.Spec{Algorithm: limit.SlidingWindow, Count: 40, Period: limit.Day}),
	exactly("log", limit.Spec{Algorithm: limit.SlidingLog, Count: 40, Period: limit.Day}),
}

func exactly(rule string, spec limit.Spec) *engine.Policy {
	l, err := limit.New(spec)
	if err != nil {
		panic(err) // a mistake in this file
	}
	return engine.NewPolicy(rule, 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0))
}

// counters makes so many keys of each policy in each share of the slots; shares are equal and as
// many as there are masters.
func counters(prefix string, shares, each int) (all []*counter) {
	for _, p := range policies {
		left := slices.Repeat([]int{each}, shares)
		for i := 0; slices.Max(left) > 0; i++ {
			key := fmt.Sprintf("%s-%d", prefix, i)
			slot := redistest.HashSlot("{" + p.Rule + ":" + key + "}")
			if share := slot * shares / redistest.HashSlots; left[share] > 0 {
				left[share]--
				all = append(all, &counter{policy: p, key: key, slot: slot})
			}
		}
	}
	return all
}

// tally is what a counter was answered.
type tally struct{ granted, denied, unavailable int64 }

// life is what became of counters between two losses of some of them.
type life struct {
	tallies map[*counter]*tally
	// unanswered is how many asks the store had sent without a reply when the life began: they may
	// have been charged.
	unanswered uint64
}

// load is callers who ask for counters until the test ends or they are stopped.
type load struct {
	store   *redisstore.Store
	stop    func()
	calling sync.RWMutex // read-locked by calls that are under way
	mu      sync.Mutex
	offered []*counter
	lives   []*life
	latest  map[*counter]tally // answers to asks that were sent since the last call of await
	round   int                // how often await was called
}

// patience is how long a call may take, and a counter to be asked for.
const patience = time.Minute

// startLoad starts callers, and waits until everything has been decided on.
func startLoad(t *testing.T, store *redisstore.Store, offered []*counter) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{store: store, offered: offered, latest: map[*counter]tally{}}
	l.lives = []*life{{map[*counter]*tally{}, l.unanswered()}}
	var callers sync.WaitGroup
	l.stop = func() { cancel(); callers.Wait() }
	t.Cleanup(l.stop)
	for i := range 8 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(4, uint64(i)))
			for ctx.Err() == nil {
				l.call(random)
				time.Sleep(time.Millisecond)
			}
		})
	}
	l.awaitDecided(t)
	return l
}

// call asks for one to three counters, which may be on different nodes.
func (l *load) call(random *rand.Rand) {
	l.calling.RLock()
	defer l.calling.RUnlock()
	asks, of := make([]engine.Ask, 1+random.IntN(3)), make([]*counter, 3)
	l.mu.Lock()
	for i := range asks {
		c := l.offered[random.IntN(len(l.offered))]
		of[i] = c
		asks[i] = engine.Ask{Policy: c.policy, Key: []byte(c.key), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
	}
	now, round := l.lives[len(l.lives)-1], l.round
	l.mu.Unlock()
	grants := make([]lease.Grant, len(asks))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	l.store.Acquire(ctx, asks, grants)
	cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, g := range grants {
		if now.tallies[of[i]] == nil {
			now.tallies[of[i]] = new(tally)
		}
		now.tallies[of[i]].add(g)
		if recent := l.latest[of[i]]; round == l.round {
			recent.add(g)
			l.latest[of[i]] = recent
		}
	}
}

func (t *tally) add(g lease.Grant) {
	t.granted += g.Granted
	switch g.Status {
	case lease.Denied:
		t.denied++
	case lease.Unavailable:
		t.unavailable++
	}
}

// offer asks for these as well from now on.
func (l *load) offer(more []*counter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offered = append(slices.Clone(l.offered), more...)
}

// lose begins a life, when all calls that are under way have returned: some counters were lost. Those
// of the others go on.
func (l *load) lose(lost func(*counter) bool) {
	l.calling.Lock()
	defer l.calling.Unlock()
	next := &life{maps.Clone(l.lives[len(l.lives)-1].tallies), l.unanswered()}
	maps.DeleteFunc(next.tallies, func(c *counter, _ *tally) bool { return lost(c) })
	l.lives = append(l.lives, next)
}

// unanswered is how many asks the store has sent without a reply.
func (l *load) unanswered() uint64 {
	st := l.store.Stats().Unavailable
	return st["timeout"] + st["network"]
}

// await waits until each offered counter was answered as met wants, to asks sent from now on.
func (l *load) await(t *testing.T, what string, met func(*counter, tally) bool) {
	t.Helper()
	l.mu.Lock()
	clear(l.latest)
	l.round++
	l.mu.Unlock()
	proc.Await(t, patience, "every counter is "+what, func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.offered {
			if !met(c, l.latest[c]) {
				return fmt.Sprintf("%v is answered %+v", c, l.latest[c])
			}
		}
		return ""
	})
}

func (l *load) awaitDecided(t *testing.T) {
	t.Helper()
	l.await(t, "decided on", func(_ *counter, s tally) bool { return s.granted+s.denied > 0 })
}

func (l *load) awaitSpent(t *testing.T) {
	t.Helper()
	l.await(t, "spent", func(_ *counter, s tally) bool { return s.denied > 0 })
}
