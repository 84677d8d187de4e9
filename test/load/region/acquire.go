//go:build linux

package region

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// acquirer is one way of acquiring units straight from Redis, for a while; run returns how many it
// acquired.
type acquirer struct {
	name string
	note string
	run  func(d time.Duration) int

	cpu, rate, perCore measure.Sample
}

// plenty is a limit per hour that the acquires do not reach.
const plenty = 60_000_000

// perCore is how many acquires per second a core of Redis has to do.
const perCore = 100_000

// acquires measures what Weir's scripts cost, by the processor time of Redis. All keys have token buckets.
func (b *bench) acquires() []table.Section {
	store := b.openStore()
	var all []*acquirer
	for _, wants := range []int{1, 10, 100} {
		name, callers := fmt.Sprintf("wants per call: %d", wants), max(4, 320/wants)
		policy := policyOf(name, limit.Spec{Algorithm: limit.TokenBucket, Count: plenty, Period: limit.Hour})
		all = append(all, &acquirer{name: name, note: fmt.Sprintf("from %d goroutines", callers),
			run: func(d time.Duration) int { return store.draw(policy, callers, wants, d) }})
	}
	redis := b.redis.meter()
	for turn := range b.acquireTurns + 1 {
		for _, a := range all {
			b.acquireFor(a, redis, turn > 0)
		}
	}
	s := table.Section{Title: fmt.Sprintf("Pipelined acquires, %d uniform keys, three masters", b.keys)}
	for _, a := range all {
		s.Rows = append(s.Rows, table.Row{Name: a.name + ": CPU of Redis", Unit: "µs/acquire", Value: a.cpu,
			Note: fmt.Sprintf("%.0f acquires/s in all, %s", a.rate.Median(), a.note)},
			table.Row{Name: a.name + ": per core of Redis", Unit: "acquires/s", Value: a.perCore, Target: table.Target{Kind: table.AtLeast, Bound: perCore}})
	}
	return []table.Section{s}
}

// acquireFor acquires for a while; measured: and keeps what it cost.
func (b *bench) acquireFor(a *acquirer, redis rig.Meter, measured bool) {
	before, begin := redis.Used(), time.Now()
	n := a.run(b.acquire)
	elapsed, after := time.Since(begin), redis.Used()
	b.Must(b.Ctx.Err())
	if n == 0 {
		b.Fatalf("%s: acquired nothing in %v", a.name, b.acquire)
	}
	if measured {
		each := (rig.Micros(after-before) - redis.Idle*rig.Micros(elapsed)) / float64(n)
		a.cpu = append(a.cpu, each)
		a.perCore = append(a.perCore, 1e6/each)
		a.rate = append(a.rate, float64(n)/elapsed.Seconds())
	}
}

// store is Weir's store on a cluster, in this process.
type store struct {
	*bench
	*redisstore.Store
}

func (b *bench) openStore() *store {
	inner, err := redisstore.New(redisstore.Config{Redis: topology.Config{Addrs: b.redis.Addrs(), Mode: topology.Cluster, Timeout: 2 * time.Second}})
	b.Must(err)
	running, stop := context.WithCancel(b.Ctx)
	var ended sync.WaitGroup
	ended.Go(func() { _ = inner.Run(running) }) // it ends with its context
	b.Cleanup(func() { stop(); ended.Wait() })
	proc.Await(b, time.Minute, "the store is ready", func() string {
		if err := inner.Ready(b.Ctx); err != nil {
			return err.Error()
		}
		return ""
	})
	return &store{b, inner}
}

// policyOf is the policy of a rule with this limit, of which no lease is held.
func policyOf(rule string, spec limit.Spec) *engine.Policy {
	l, err := limit.New(spec)
	if err != nil {
		panic(err) // the specs are constants
	}
	return engine.NewPolicy(rule, 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0))
}

// draw lets callers acquire one unit each of keys drawn at random, so many per
// call, until the time is over.
func (s *store) draw(p *engine.Policy, callers, wants int, d time.Duration) int {
	end := time.Now().Add(d)
	var acquired atomic.Int64
	s.Together(callers, func(int) {
		for b := newBatch(p, wants); time.Now().Before(end); acquired.Add(int64(wants)) {
			for i := range b.asks {
				b.key(i, rand.Uint32N(s.keys))
			}
			s.Must(b.acquire(s.Ctx, s.Store))
		}
	})
	return int(acquired.Load())
}

type batch struct {
	asks   []engine.Ask
	grants []lease.Grant
}

func newBatch(p *engine.Policy, n int) *batch {
	b := &batch{asks: make([]engine.Ask, n), grants: make([]lease.Grant, n)}
	for i := range b.asks {
		b.asks[i] = engine.Ask{Policy: p, Key: []byte("user-00000000"), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
	}
	return b
}

// key gives the i-th ask a key.
func (b *batch) key(i int, number uint32) {
	key := b.asks[i].Key
	for at := len(key) - 1; at >= len(key)-8; at-- {
		key[at] = byte('0' + number%10)
		number /= 10
	}
}

// patience is how long a caller waits for the store.
const patience = 5 * time.Second

// acquire asks, and fails if the store did not answer everything.
func (b *batch) acquire(ctx context.Context, s engine.Store) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.Acquire(ctx, b.asks, b.grants)
	for i := range b.grants {
		if b.grants[i].Status == lease.Unavailable {
			return fmt.Errorf("the store did not answer for key %s", b.asks[i].Key)
		}
	}
	return nil
}
