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

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
)

// Store keeps counters in Redis. Create it with [New]; it decides while [Store.Run]
// runs. It is safe for concurrent use.
type Store struct {
	config Config
	finder finder
	began  time.Time

	// table is which node serves a hash slot. All are the same where there is but
	// one master; nil: nobody knows.
	table [slots]atomic.Pointer[node]

	mu    sync.Mutex
	nodes map[string]*node // by address
	ctx   context.Context  // of the nodes; nil: the store does not run
	known []string         // every address of the cluster, replicas included
	cause error            // why the topology is not known, or was not the last time

	running sync.WaitGroup
	reload  chan struct{}

	replicas atomic.Int64
	holders  atomic.Int64
	live     func(within time.Duration) []uint64 // nil: holders are not counted
	counters counters
	metrics  metrics
}

var _ limiter.Store = (*Store)(nil)

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

// quiet keeps go-redis from writing to the standard error, a line for each dial
// that fails: nodes that come and go are told to Config.Log, once.
type quiet struct{}

var quietOnce sync.Once

func (quiet) Printf(context.Context, string, ...any) {}

// Epoch never changes: what Redis lost begins anew, see [limiter.Store].
func (*Store) Epoch() uint64 { return 1 }

// Acquire decides on asks; see [limiter.Store]. What is not decided by the end of ctx
// is Unavailable, and may be charged nevertheless: then it is given back if a single ask
// was, and the reply arrived.
func (s *Store) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	s.counters.calls.Add(1)
	s.counters.asks.Add(uint64(len(asks)))
	if ctx.Err() != nil {
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
			s.unavailable(Deadline)
		}
		return
	}
	if len(asks) == 0 {
		return
	}
	c := s.newCall(asks)
	out := make([]*errand, len(c.errands))
	for i := range c.errands {
		out[i] = &c.errands[i]
	}
	s.post(out)
	c.wait(ctx)
	c.leave(grants)
}

// post gives errands to their nodes, all of one node at once, so that they travel
// together. It uses up the slice.
func (s *Store) post(errands []*errand) {
	for len(errands) > 0 {
		n := s.table[errands[0].slot].Load()
		same := 1 // errands[:same] are for n
		for i := 1; i < len(errands); i++ {
			if s.table[errands[i].slot].Load() == n {
				errands[same], errands[i] = errands[i], errands[same]
				same++
			}
		}
		if n == nil {
			failAll(errands[:same], Network)
		} else {
			n.post(errands[:same])
		}
		errands = errands[same:]
	}
}

func failAll(errands []*errand, why Reason) {
	for _, e := range errands {
		e.fail(why)
	}
}

// now is the clock of the counters; 0: that of the server.
func (s *Store) now() limit.Micros {
	if s.config.Now == nil {
		return 0
	}
	return s.config.Now()
}

// Run connects, and keeps up with Redis, until ctx ends. Then all that waits is
// Unavailable. It returns nil; it is called once.
func (s *Store) Run(ctx context.Context) error {
	nodes, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.mu.Lock()
	s.ctx = nodes
	s.mu.Unlock()
	var tasks sync.WaitGroup
	tasks.Go(func() { s.followTopology(ctx) })
	tasks.Go(func() { s.beat(ctx) })
	tasks.Wait() // its last word still needs the nodes

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

// Ready returns nil as soon as a master answers, or at the end of ctx an error
// that says what is in the way.
func (s *Store) Ready(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.state()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

var errNoMaster = errors.New("redis: no master is known yet")

// state is nil if any master answers.
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

// serving are the nodes that the table names.
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

// node is that of an address. It is made, and starts, if it is new; nil after the
// store has ended.
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

// jittered is a duration, ten percent more or less, so that replicas do not act in
// step.
func jittered(d time.Duration) time.Duration {
	return d*9/10 + rand.N(d/5+1)
}

// sleep waits, and reports whether ctx is still good.
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
