//go:build linux

package region

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/round"
	"github.com/weirlimit/weir/test/load/table"
)

// acquirer is one way of acquiring units straight from Redis.
type acquirer struct {
	name string
	note string
	run  func(ctx context.Context, d time.Duration) (acquired int, err error)

	cpu, rate, perCore measure.Sample
}

// plenty is a limit per hour that the acquires do not reach.
const plenty = 60_000_000

// perCore is how many acquires per second a core of Redis has to do.
const perCore = 100_000

// acquires compares Weir's scripts with that of redis_rate, by the processor time
// of Redis.
func (b *bench) acquires(ctx context.Context) ([]table.Section, error) {
	redisRate, err := b.peers.RedisRate(b.redis.Addrs())
	if err != nil {
		return nil, err
	}
	defer redisRate.Stop()
	theirs := &acquirer{name: "redis_rate, pipelines of 50", run: func(ctx context.Context, d time.Duration) (int, error) {
		return redisRate.Run(ctx, int(b.plan.keys), plenty, d)
	}}
	store, err := openStore(ctx, b.redis)
	if err != nil {
		return nil, err
	}
	defer store.close()
	ours, others := b.storeAcquirers(store)
	all := append(append([]*acquirer{theirs}, ours...), others...)
	if err := b.redis.measureIdle(ctx, time.Second); err != nil {
		return nil, err
	}
	for turn := range b.plan.acquireTurns + 1 {
		for _, a := range all {
			if err := a.turn(ctx, b.redis, b.plan.acquire, turn > 0); err != nil {
				return nil, fmt.Errorf("%s: %w", a.name, err)
			}
		}
	}
	s := acquireRows(theirs, ours, others, b.plan.keys)
	s.Rows = append([]table.Row{b.redis.idleRow()}, s.Rows...)
	return []table.Section{s}, nil
}

// storeAcquirers are a token bucket, which is what redis_rate keeps, with so many
// wants per call, and the other algorithms.
func (b *bench) storeAcquirers(s *store) (ours, others []*acquirer) {
	add := func(name string, spec limit.Spec, callers, wants int) *acquirer {
		spec.Count, spec.Period = plenty, limit.Minute*60
		if spec.Algorithm == limit.SlidingLog { // it keeps a record of each unit
			spec.Count, spec.Period = 100, 100*limit.Millisecond
		}
		policy := policyOf(name, spec)
		return &acquirer{name: name, note: fmt.Sprintf("from %d goroutines", callers),
			run: func(ctx context.Context, d time.Duration) (int, error) {
				return s.draw(ctx, policy, b.plan.keys, callers, wants, d)
			}}
	}
	for _, wants := range []int{1, 10, 100} {
		callers := max(4, 320/wants)
		ours = append(ours, add(fmt.Sprintf("Weir, wants per call: %d", wants), limit.Spec{Algorithm: limit.TokenBucket}, callers, wants))
	}
	for _, a := range []struct {
		name      string
		algorithm limit.Algorithm
	}{
		{"fixed window", limit.FixedWindow}, {"sliding window", limit.SlidingWindow}, {"sliding log", limit.SlidingLog},
	} {
		others = append(others, add("Weir, "+a.name+", wants per call: 100", limit.Spec{Algorithm: a.algorithm}, 4, 100))
	}
	return ours, others
}

// turn acquires for a while; measured: and keeps what it cost.
func (a *acquirer) turn(ctx context.Context, c *cluster, d time.Duration, measured bool) error {
	before, err := c.cpu()
	if err != nil {
		return err
	}
	begin := time.Now()
	n, err := a.run(ctx, d)
	if err != nil {
		return err
	}
	elapsed := time.Since(begin)
	after, err := c.cpu()
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("acquired nothing in %v", d)
	}
	if measured {
		each := (round.Micros(after-before) - c.idle*round.Micros(elapsed)) / float64(n)
		a.cpu = append(a.cpu, each)
		a.perCore = append(a.perCore, 1e6/each)
		a.rate = append(a.rate, float64(n)/elapsed.Seconds())
	}
	return ctx.Err()
}

func acquireRows(theirs *acquirer, ours, others []*acquirer, keys uint32) table.Section {
	s := table.Section{Title: fmt.Sprintf("Pipelined acquires, %d uniform keys, three masters", keys)}
	notMore := table.Target{Kind: table.Times, Bound: 1, Base: theirs.cpu, BaseName: "redis_rate"}
	add := func(a *acquirer, cpu, perCore table.Target) {
		note := fmt.Sprintf("%.0f acquires/s in all", a.rate.Median())
		if a.note != "" {
			note += ", " + a.note
		}
		s.Rows = append(s.Rows,
			table.Row{Name: a.name + ": CPU of Redis", Unit: "µs/acquire", Value: a.cpu, Peer: theirs.cpu, Target: cpu, Note: note},
			table.Row{Name: a.name + ": per core of Redis", Unit: "acquires/s", Value: a.perCore, Peer: theirs.perCore, Target: perCore})
	}
	add(theirs, table.Target{}, table.Target{})
	for _, a := range ours {
		add(a, notMore, table.Target{Kind: table.AtLeast, Bound: perCore})
	}
	for _, a := range others {
		add(a, table.Target{}, table.Target{})
	}
	return s
}

// store is Weir's store on a cluster, in this process.
type store struct {
	*redisstore.Store
	stop  context.CancelFunc
	ended chan struct{}
}

func openStore(ctx context.Context, c *cluster) (*store, error) {
	inner, err := redisstore.New(redisstore.Config{Redis: topology.Config{Addrs: c.Addrs(), Mode: topology.Cluster, Timeout: 2 * time.Second}})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	s := &store{Store: inner, stop: stop, ended: make(chan struct{})}
	go func() {
		_ = inner.Run(running) // it ends with its context
		close(s.ended)
	}()
	for range 100 {
		if err = inner.Ready(ctx); err == nil {
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.close()
	return nil, fmt.Errorf("store: %w", err)
}

func (s *store) close() {
	s.stop()
	<-s.ended
}

// policyOf is the policy of a rule with this limit, of which no lease is held.
func policyOf(rule string, spec limit.Spec) *engine.Policy {
	l, err := limit.New(spec)
	if err != nil {
		panic(err) // the specs are constants
	}
	return engine.NewPolicy(rule, 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0))
}

// patience is how long a caller waits for the store.
const patience = 5 * time.Second

// draw lets callers acquire one unit each of keys drawn at random, so many per
// call, until the time is over.
func (s *store) draw(ctx context.Context, p *engine.Policy, keys uint32, callers, wants int, d time.Duration) (int, error) {
	end := time.Now().Add(d)
	var acquired atomic.Int64
	var g errgroup.Group
	for range callers {
		g.Go(func() error {
			b := newBatch(p, wants)
			for time.Now().Before(end) {
				for i := range b.asks {
					b.key(i, rand.Uint32N(keys))
				}
				if err := b.acquire(ctx, s.Store); err != nil {
					return err
				}
				acquired.Add(int64(wants))
			}
			return nil
		})
	}
	err := g.Wait()
	return int(acquired.Load()), err
}

// batch is the asks of one call.
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
