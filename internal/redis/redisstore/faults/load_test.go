package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// The load of every fault: an open loop, so that a store that hangs is asked as
// often as one that answers.
const (
	budget  = 100 * time.Millisecond // of a call
	rate    = 600                    // calls a second, of one to three asks each
	workers = 120                    // enough to keep the rate while every call takes its whole budget
)

// counter is one key of one rule, which the load asks for single units.
type counter struct {
	policy *engine.Policy
	key    string
	slot   int
}

func (c *counter) String() string { return c.policy.Rule + ":" + c.key }

func (c *counter) limit() int64 { return c.policy.Limit.Spec().Count }

// perSecond is the one rule whose windows begin anew during a test. The limits of
// the others are used up soon, and are not whole again before the test is over.
const perSecond = "second"

// policies has a limit of each algorithm that counts units. No window of the second ends within a trial.
var policies = []*engine.Policy{
	exactly(perSecond, limit.Spec{Algorithm: limit.FixedWindow, Count: 5, Period: limit.Second}),
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

// counters makes so many keys of each policy in each share of the slots; shares
// are equal and as many as there are masters. prefix keeps them apart from those
// of another trial on the same servers.
func counters(prefix string, shares, each int) (all []*counter) {
	for _, p := range policies {
		all = append(all, keysOf(p, prefix, shares, each)...)
	}
	return all
}

func keysOf(p *engine.Policy, prefix string, shares, each int) (all []*counter) {
	left := slices.Repeat([]int{each}, shares)
	for i := 0; slices.Max(left) > 0; i++ {
		key := fmt.Sprintf("%s-%d", prefix, i)
		slot := redistest.HashSlot("{" + p.Rule + ":" + key + "}")
		if share := slot * shares / redistest.HashSlots; left[share] > 0 {
			left[share]--
			all = append(all, &counter{policy: p, key: key, slot: slot})
		}
	}
	return all
}

// answer is what became of one ask.
type answer struct {
	of         *counter
	alone      bool          // the only ask of its call
	sent, done time.Duration // since the load began
	status     lease.Status
	granted    int64
	lease      uint32
}

// load asks for counters until it is stopped.
type load struct {
	store   engine.Store
	begin   time.Time
	offered atomic.Pointer[[]*counter]
	stopped chan struct{}
	all     sync.WaitGroup

	mu      sync.Mutex
	answers []answer
	calls   []span // from when until when each took
}

func startLoad(store engine.Store, offered []*counter) *load {
	l := &load{store: store, begin: time.Now(), stopped: make(chan struct{})}
	l.offer(offered)
	for i := range workers {
		l.all.Go(func() { l.work(i) })
	}
	return l
}

// offer asks for these from now on.
func (l *load) offer(c []*counter) { l.offered.Store(&c) }

// at is the time on the load's clock.
func (l *load) at() time.Duration { return time.Since(l.begin) }

// stop waits until the last call has returned.
func (l *load) stop() {
	close(l.stopped)
	l.all.Wait()
}

// work makes one call in workers/rate seconds.
func (l *load) work(worker int) {
	const every = time.Second * workers / rate
	random := rand.New(rand.NewPCG(4, uint64(worker)))
	next := every * time.Duration(worker) / workers
	for ; ; next += every {
		select {
		case <-l.stopped:
			return
		case <-time.After(next - l.at()):
			if offered := *l.offered.Load(); len(offered) > 0 {
				l.call(random, offered)
			}
		}
	}
}

// call asks for one to three counters, which may be on different nodes.
func (l *load) call(random *rand.Rand, offered []*counter) {
	asks := make([]engine.Ask, 1+random.IntN(3))
	answers := make([]answer, len(asks))
	for i := range asks {
		c := offered[random.IntN(len(offered))]
		answers[i].of = c
		asks[i] = engine.Ask{Policy: c.policy, Key: []byte(c.key), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
	}
	grants := make([]lease.Grant, len(asks))
	sent := l.at()
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	l.store.Acquire(ctx, asks, grants)
	cancel()
	done := l.at()
	for i, g := range grants {
		a := &answers[i]
		a.alone = len(grants) == 1
		a.sent, a.done, a.status, a.granted, a.lease = sent, done, g.Status, g.Granted, g.Lease
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, answers...)
	l.calls = append(l.calls, span{sent, done})
}

// since is what was answered to asks that were sent at or after from, the newest
// first. Answers stand in the order in which they came.
func (l *load) since(from time.Duration) (recent []answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.answers) - 1; i >= 0 && l.answers[i].done >= from; i-- {
		if l.answers[i].sent >= from {
			recent = append(recent, l.answers[i])
		}
	}
	return recent
}

// awaitAnswers waits until every counter that is offered has been decided on within
// half a second, after from.
func (l *load) awaitAnswers(t *testing.T, from, within time.Duration) {
	t.Helper()
	l.await(t, within, "has been decided on", func() map[*counter]bool {
		answered := map[*counter]bool{}
		for _, a := range l.since(max(from, l.at()-500*time.Millisecond)) {
			answered[a.of] = answered[a.of] || a.status != lease.Unavailable
		}
		return answered
	})
}

// awaitSpent waits until every counter that is offered was denied after from; one
// of a second need not be.
func (l *load) awaitSpent(t *testing.T, from time.Duration) {
	t.Helper()
	l.await(t, patience, "is spent", func() map[*counter]bool {
		spent := map[*counter]bool{}
		for _, a := range l.since(from) {
			spent[a.of] = spent[a.of] || a.status == lease.Denied || a.of.policy.Rule == perSecond
		}
		return spent
	})
}

// await polls until met has every counter that is offered.
func (l *load) await(t *testing.T, within time.Duration, what string, met func() map[*counter]bool) {
	t.Helper()
	for end := l.at() + within; ; time.Sleep(20 * time.Millisecond) {
		have, missing := met(), 0
		for _, c := range *l.offered.Load() {
			if !have[c] {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		if l.at() > end {
			t.Fatalf("%d counters of which none %s within %v", missing, what, within)
		}
	}
}

// patience is how long to wait for what takes a second or three on a machine that
// does nothing else.
const patience = time.Minute
