package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Store keeps counters in Redis. Create it with [New]; it decides while [Store.Run]
// runs. It is safe for concurrent use.
type Store struct {
	config Config
	finder finder
	began  time.Time

	// table maps each hash slot to the node that serves it; with one master all are
	// the same. nil: unknown.
	table [hashSlots]atomic.Pointer[node]

	mu    sync.Mutex
	nodes map[string]*node // by address
	ctx   context.Context  // of the nodes; nil: the store does not run
	known []string         // every address of the cluster, replicas included
	cause error            // why the last look-up of the topology failed

	running sync.WaitGroup
	reload  chan struct{}

	replicas atomic.Int64
	holders  atomic.Int64
	live     func(within time.Duration) []uint64 // nil: holders are not counted
	counters counters
	metrics  metrics
}

var _ engine.Store = (*Store)(nil)

// New makes a store. It connects to nothing.
func New(c Config) (*Store, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	quietOnce.Do(func() { redis.SetLogger(quiet{}) })
	s := &Store{
		config: c,
		began:  time.Now(),
		nodes:  map[string]*node{},
		reload: make(chan struct{}, 1),
		cause:  errors.New("redis: the store does not run yet"),
	}
	s.finder = s.newFinder()
	return s, nil
}

// quiet stops go-redis from writing a line to standard error for each dial that fails:
// Config.Log gets one line for each node that comes or goes.
type quiet struct{}

var quietOnce sync.Once

func (quiet) Printf(context.Context, string, ...any) {}

// Epoch never changes: counters that Redis lost start again, see [engine.Store].
func (*Store) Epoch() uint64 { return 1 }

// Acquire decides on asks; see [engine.Store]. Asks that are not decided when ctx ends
// are Unavailable. They may be charged nevertheless: their units are given back when the
// reply arrives.
func (s *Store) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	s.counters.calls.Add(1)
	s.counters.asks.Add(uint64(len(asks)))
	c := s.newAcquisition(asks)
	c.spans = telemetry.Waiting(ctx)
	if len(asks) > 0 && ctx.Err() == nil {
		out := make([]*pendingAsk, len(c.asks))
		for i := range c.asks {
			out[i] = &c.asks[i]
		}
		s.post(out)
		c.wait(ctx)
	}
	c.leave(grants)
}

// post queues asks at their nodes, all of one node at once, so that they travel
// together. It reorders the slice.
func (s *Store) post(asks []*pendingAsk) {
	for len(asks) > 0 {
		n := s.table[asks[0].hashSlot].Load()
		same := 1 // asks[:same] are for n
		for i := 1; i < len(asks); i++ {
			if s.table[asks[i].hashSlot].Load() == n {
				asks[same], asks[i] = asks[i], asks[same]
				same++
			}
		}
		if n == nil {
			failAll(asks[:same], Network)
		} else {
			n.post(asks[:same])
		}
		asks = asks[same:]
	}
}

func failAll(asks []*pendingAsk, why Reason) {
	for _, p := range asks {
		p.fail(why)
	}
}

// now returns the time of the counters' clock; 0: the server reads its own clock.
func (s *Store) now() limit.Micros {
	if s.config.Now == nil {
		return 0
	}
	return s.config.Now()
}

// Run connects to Redis and follows its topology until ctx ends. Then all asks that wait
// are Unavailable. It returns nil; call it once.
func (s *Store) Run(ctx context.Context) error {
	nodes, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.mu.Lock()
	s.ctx = nodes
	s.mu.Unlock()
	var tasks sync.WaitGroup
	tasks.Go(func() { s.followTopology(ctx) })
	tasks.Go(func() { s.beat(ctx) })
	tasks.Wait() // the last command of the heartbeat still needs the nodes

	s.mu.Lock()
	s.ctx = nil
	s.cause = errors.New("redis: the store has ended")
	for _, n := range s.nodes {
		n.stop()
		n.serves.Store(false)
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// Ready returns nil as soon as a master answers. When ctx ends before, it returns the
// reason and what to change.
func (s *Store) Ready(ctx context.Context) (err error) {
	repeat.Until(ctx, 5*time.Millisecond, func() bool {
		err = s.state()
		return err == nil
	})
	return err
}

var errNoMaster = errors.New("redis: no master is known yet")

// state returns nil if any master answers.
func (s *Store) state() error {
	nodes := s.serving()
	s.mu.Lock()
	err := s.cause
	s.mu.Unlock()
	if len(nodes) == 0 {
		return s.config.advised(cmp.Or(err, errNoMaster))
	}
	for _, n := range nodes {
		if n.answers() {
			return nil
		}
	}
	return s.config.advised(fmt.Errorf("redis: none of %d masters answers, %s for one: %w", len(nodes), nodes[0].addr, nodes[0].trouble()))
}

// serving returns the nodes that serve hash slots, by address.
func (s *Store) serving() []*node {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*node
	for _, n := range s.nodes {
		if n.serves.Load() {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	return all
}

// node returns the node of an address; it makes and starts one if there is none. It
// returns nil after the store has ended.
func (s *Store) node(addr string) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		return nil
	}
	n := s.nodes[addr]
	if n == nil {
		n = newNode(s, addr)
		s.nodes[addr] = n
		n.start(s.ctx)
	}
	n.named.Store(int64(time.Since(s.began)))
	return n
}

// jittered varies a duration by ten percent, so that replicas do not act at the same
// time.
func jittered(d time.Duration) time.Duration {
	return d*9/10 + rand.N(d/5+1)
}

// sleep waits for d or until ctx ends. It reports whether ctx is still valid.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func closeClient(c io.Closer) { _ = c.Close() } // of a pool: nothing is lost with it
