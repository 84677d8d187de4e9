package redisstore

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/script"
)

// node is a master: the asks that wait for it, the lanes that send them, and its
// breaker. It is safe for concurrent use.
type node struct {
	store  *Store
	addr   string
	queue  *queue
	client atomic.Pointer[redis.Client] // replaced after an outage
	cancel context.CancelFunc

	open   atomic.Bool  // whether the breaker is open, readable without mu
	good   atomic.Bool  // it has answered since the breaker was last open
	serves atomic.Bool  // the table of hash slots names it
	named  atomic.Int64 // when the topology or a redirect last named it, since store.began

	memory atomic.Pointer[memory] // as stated last; nil: not known

	mu      sync.Mutex
	breaker breaker
	last    error         // the last error
	opened  chan struct{} // gets a value when the breaker opens

	quietUntil time.Duration // no refusal is logged before then
}

func newNode(s *Store, addr string) *node {
	n := &node{store: s, addr: addr, queue: newQueue(s.config.Queue), opened: make(chan struct{}, 1)}
	n.client.Store(redis.NewClient(s.config.options(addr)))
	return n
}

// start runs the node's goroutines until ctx ends or the node is stopped.
func (n *node) start(ctx context.Context) {
	ctx, n.cancel = context.WithCancel(ctx)
	for range n.store.config.Lanes {
		n.store.running.Go(func() { n.lane(ctx) })
	}
	n.store.running.Go(func() { n.tend(ctx) })
	n.store.running.Go(func() { n.measure(ctx) })
}

// stop ends the node. Asks that wait for it are Unavailable; its goroutines end soon.
func (n *node) stop() {
	n.cancel()
	n.queue.close()
}

// post queues asks. It settles them at once if the breaker is open or the queue is full.
func (n *node) post(asks []*pendingAsk) {
	if n.open.Load() {
		failAll(asks, Breaker)
		return
	}
	taken := n.queue.put(asks)
	failAll(asks[taken:], QueueFull)
}

// tend loads the scripts, and probes the node while its breaker is open.
func (n *node) tend(ctx context.Context) {
	defer func() { closeClient(n.client.Load()) }()
	client, generation := n.current()
	if err := prepare(ctx, client); err != nil {
		n.report(ctx, generation, timedOut, err) // it never answered
	} else {
		n.good.Store(true)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.opened:
		}
		for n.open.Load() {
			failAll(n.queue.drain(), Breaker)
			if n.serves.Load() { // else another master has taken over
				n.store.requestReload()
			}
			if !sleep(ctx, n.untilProbe()) {
				return
			}
			n.probe(ctx)
		}
	}
}

// prepare loads the scripts, which also shows that the server answers. It then runs a
// script that does nothing, which shows that the user may run scripts on our keys.
func prepare(ctx context.Context, client *redis.Client) error {
	pipe := client.Pipeline()
	for _, s := range script.All() {
		pipe.ScriptLoad(ctx, s.Source)
	}
	idle := pipe.Eval(ctx, "return 0", []string{replicasKey})
	cmds, err := pipe.Exec(ctx)
	if idle.Err() != nil && strings.HasPrefix(idle.Err().Error(), "NOPERM") {
		return idle.Err()
	}
	if err == nil || replied(cmds[0]) && !loading(err) {
		return nil // a user who may not load scripts is no outage: EVAL works as well
	}
	return err
}

// replied reports whether a command of a pipeline has a reply of the server. A
// connection that could not be set up leaves neither reply nor error behind.
func replied(c redis.Cmder) bool {
	if err := c.Err(); err != nil {
		return isReply(err)
	}
	s, ok := c.(*redis.StringCmd)
	return !ok || s.Val() != ""
}

// probe tests over new connections whether the node answers again: the old ones may
// lead to a server that is gone.
func (n *node) probe(ctx context.Context) {
	n.mu.Lock()
	due := n.breaker.probe(n.now())
	n.mu.Unlock()
	if !due {
		return
	}
	client := redis.NewClient(n.store.config.options(n.addr))
	err := prepare(ctx, client)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breaker.probed(outcomeOf(err), n.now(), jitter())
	if err != nil {
		n.last = err
		closeClient(client)
		return
	}
	closeClient(n.client.Swap(client))
	n.good.Store(true)
	n.open.Store(false)
	n.store.config.Log.Info("redis answers again", "addr", n.addr)
}

// current returns the client to use now, and the generation to report with.
func (n *node) current() (client *redis.Client, generation uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.client.Load(), n.breaker.generation
}

// report records in the breaker how a pipeline ended.
func (n *node) report(ctx context.Context, generation uint64, o outcome, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if generation != n.breaker.generation {
		return // it comes from a connection that was given up
	}
	if o == answered {
		n.good.Store(true)
	} else {
		n.last = err
	}
	if n.breaker.report(generation, o, n.now(), jitter()) {
		n.broke(ctx, err)
	}
}

func (n *node) broke(ctx context.Context, err error) {
	n.open.Store(true)
	n.good.Store(false)
	n.store.counters.opened.Add(1)
	n.store.config.Log.WarnContext(ctx, "redis does not answer; its keys are unavailable", "addr", n.addr,
		"error", n.store.config.advised(err), "runbook", "docs/runbooks/WeirRedisUnavailable.md")
	select {
	case n.opened <- struct{}{}:
	default:
	}
}

func (n *node) untilProbe() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(max(0, n.breaker.ProbeAt-n.now())) * time.Millisecond
}

func (n *node) since() time.Duration { return time.Since(n.store.began) }

// now is the clock of the breaker.
func (n *node) now() lease.Millis { return lease.Millis(n.since().Milliseconds()) }

// jitter is in percent, so that replicas do not probe at the same time.
func jitter() lease.Millis { return lease.Millis(jittered(100)) }

// answers reports whether the node answered the last pipeline or probe.
func (n *node) answers() bool { return n.good.Load() && !n.open.Load() }

// trouble returns the last error.
func (n *node) trouble() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cmp.Or(n.last, errors.New("not asked yet"))
}
