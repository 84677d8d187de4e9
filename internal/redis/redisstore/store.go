package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Store keeps counters in Redis. Create it with [New]; it decides while [Store.Run]
// runs. It is safe for concurrent use.
type Store struct {
	config   Config
	topology *topology.Topology

	beatEvery time.Duration // between two heartbeats
	replicas  atomic.Int64
	holders   atomic.Int64
	live      func(within time.Duration) []uint64 // nil: holders are not counted
	metrics   metrics
	notes     chan struct{} // is held during a command for notes: they share a connection
}

var _ engine.Store = (*Store)(nil)

// New makes a store. It connects to nothing.
func New(c Config) (*Store, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Store{config: c, beatEvery: beatEvery, notes: make(chan struct{}, 1)}
	use := topology.Use{
		Sender:      func(n *topology.Node) topology.Sender { return &sender{s, n, newQueue(c.Queue)} },
		Connections: c.Lanes + 2, // the heartbeat, and what people watch
		Probe:       probeScript,
		Key:         "weir:probe:",
	}
	for _, script := range script.All() {
		use.Scripts = append(use.Scripts, script.Source)
	}
	if s.topology, err = topology.New(c.Redis, use); err != nil {
		return nil, err
	}
	s.observe()
	return s, nil
}

// Acquire decides on asks; see [engine.Store]. Asks that are not decided when ctx ends
// are Unavailable. They may be charged nevertheless: their units are given back when the
// reply arrives.
func (s *Store) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	s.metrics.calls.Inc()
	s.metrics.asks.Add(float64(len(asks)))
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
		n := s.topology.At(asks[0].hashSlot)
		same := 1 // asks[:same] are for n
		for i := 1; i < len(asks); i++ {
			if s.topology.At(asks[i].hashSlot) == n {
				asks[same], asks[i] = asks[i], asks[same]
				same++
			}
		}
		if n == nil {
			failAll(asks[:same], network)
		} else {
			senderOf(n).post(asks[:same])
		}
		asks = asks[same:]
	}
}

func failAll(asks []*pendingAsk, why reason) {
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
	var following sync.WaitGroup
	following.Go(func() { s.topology.Run(nodes) })
	s.beat(ctx) // its last command still needs the nodes
	stop()
	following.Wait()
	return nil
}

// Ready returns nil as soon as a master answers. When ctx ends before, it returns the
// reason and what to change.
func (s *Store) Ready(ctx context.Context) error { return s.topology.Ready(ctx) }
