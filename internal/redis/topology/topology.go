package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/repeat"
)

const (
	// reloadEvery is the time between two look-ups of the topology when nothing has
	// changed; with sentinels, which are the only source, it is reloadSentinelEvery.
	reloadEvery         = 30 * time.Second
	reloadSentinelEvery = time.Second
	// reloadPause is the least time between two look-ups, and reloadCalm the longest
	// while look-ups are requested. A look-up opens new connections, and without a replica
	// to take over a master may be down for hours.
	reloadPause = 100 * time.Millisecond
	reloadCalm  = time.Second
	// forgetAfter is the time after which a node is closed that neither the topology nor a
	// redirect has named.
	forgetAfter = time.Minute
)

// Topology follows which nodes serve which hash slots. Create it with [New]; it knows nodes
// while [Topology.Run] runs. It is safe for concurrent use.
type Topology struct {
	// Config is complete: defaults are filled in. It never changes.
	Config Config

	use    Use
	finder finder
	began  time.Time

	// table maps each hash slot to the node that serves it; with one master all are
	// the same. nil: unknown.
	table [slots]atomic.Pointer[Node]

	mu    sync.Mutex
	nodes map[string]*Node // by address
	ctx   context.Context  // of the nodes; nil: the topology does not run
	known []string         // every address of the cluster, replicas included
	cause error            // why the last look-up failed

	running sync.WaitGroup
	reload  chan struct{}
	metrics metrics
}

// Use is what the nodes are used for.
type Use struct {
	// Sender makes the sender of a node. Node and sender are there for each other.
	Sender func(*Node) Sender
	// Connections is how many connections to a node the user needs at once.
	Connections int
	// Scripts are loaded into each node.
	Scripts []string
	// Probe is a script that calls, on the key that it gets, every command that scripts of the user
	// call, and returns the error of the first one that fails. A node that rejects it does not
	// answer, as far as the user is concerned. It leaves nothing behind.
	Probe string
	// Key begins the name of this key.
	Key string
}

// Sender sends a user's commands to one node.
type Sender interface {
	// Run sends commands until ctx ends: then the node is not used any more.
	Run(ctx context.Context)
}

// New makes a topology. It connects to nothing.
func New(c Config, use Use) (*Topology, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	quietOnce.Do(func() { redis.SetLogger(quiet{}) })
	t := &Topology{
		Config: c,
		use:    use,
		began:  time.Now(),
		nodes:  map[string]*Node{},
		reload: make(chan struct{}, 1),
		cause:  errors.New("redis: the store does not run yet"),
	}
	t.finder = newFinder(&t.Config)
	t.observe()
	return t, nil
}

// quiet stops go-redis from writing a line to standard error for each dial that fails:
// Config.Log gets one line for each node that comes or goes.
type quiet struct{}

var quietOnce sync.Once

func (quiet) Printf(context.Context, string, ...any) {}

// At returns the node that serves a hash slot; nil: it is unknown.
func (t *Topology) At(slot uint16) *Node { return t.table[slot].Load() }

// Masters returns the nodes that serve hash slots, by address.
func (t *Topology) Masters() (all []*Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.nodes {
		if n.serves.Load() {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *Node) int { return cmp.Compare(a.Addr, b.Addr) })
	return all
}

// Ready returns nil as soon as a master answers. When ctx ends before, it returns the
// reason and what to change.
func (t *Topology) Ready(ctx context.Context) (err error) {
	repeat.Until(ctx, 5*time.Millisecond, func() bool {
		err = t.state()
		return err == nil
	})
	return err
}

var errNoMaster = errors.New("redis: no master is known yet")

// state returns nil if any master answers.
func (t *Topology) state() error {
	masters := t.Masters()
	t.mu.Lock()
	err := t.cause
	t.mu.Unlock()
	if len(masters) == 0 {
		return t.Config.Advised(cmp.Or(err, errNoMaster))
	}
	for _, n := range masters {
		if n.answers() {
			return nil
		}
	}
	return t.Config.Advised(fmt.Errorf("redis: none of %d masters answers, %s for one: %w", len(masters), masters[0].Addr, masters[0].trouble()))
}

// Run looks up the topology at the start, on request, and periodically, until ctx ends. It
// returns when the senders of all nodes have ended.
func (t *Topology) Run(ctx context.Context) {
	t.mu.Lock()
	t.ctx = ctx
	t.mu.Unlock()

	every := reloadEvery
	if t.Config.Mode == Sentinel {
		every = reloadSentinelEvery
	}
	row := time.Now() // the begin of this row of look-ups
	for ctx.Err() == nil {
		settled := t.lookUp(ctx)
		repeat.Sleep(ctx, repeat.Jittered(pauseAfter(time.Since(row))))
		if settled && t.rest(ctx, repeat.Jittered(every)) {
			row = time.Now()
		}
	}

	t.mu.Lock()
	t.ctx = nil
	t.cause = errors.New("redis: the store has ended")
	for _, n := range t.nodes {
		n.serves.Store(false)
	}
	t.mu.Unlock()
	t.running.Wait()
}

// Reload requests a look-up of the topology. Requests that arrive before it begins are
// answered by the same look-up; see pauseAfter.
func (t *Topology) Reload() {
	select {
	case t.reload <- struct{}{}:
	default: // one is requested already
	}
}

// pauseAfter returns the pause in a row of look-ups that has lasted for so long: an
// eighth of it, within bounds. So look-ups are frequent at the begin of a failure, they
// notice its end at most an eighth later, and a Redis that stays down gets few of them.
func pauseAfter(row time.Duration) time.Duration {
	return min(max(row/8, reloadPause), reloadCalm)
}

// rest waits until a look-up is requested, or for the given time at most. It reports
// whether no request came for a while: then the row of look-ups is over.
func (t *Topology) rest(ctx context.Context, most time.Duration) bool {
	begin := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-t.reload:
	}
	return time.Since(begin) >= reloadCalm/2
}

// lookUp reads the topology and applies it. It reports whether the topology is settled.
// On an error the old one stays.
func (t *Topology) lookUp(ctx context.Context) (settled bool) {
	t.metrics.reloads.Inc()
	l, err := t.finder.find(ctx, t.askable())
	t.mu.Lock()
	changed := (err == nil) != (t.cause == nil)
	t.cause = err
	if err == nil {
		t.known = l.known
	}
	t.mu.Unlock()
	if err != nil {
		if changed && ctx.Err() == nil {
			t.Config.Log.Warn("cannot read the redis topology; the last one stays in use", "error", t.Config.Advised(err))
		}
		return false
	}
	t.apply(l)
	return !l.doubt
}

// askable returns the addresses to read the topology from: all known ones, except
// those whose breaker is open.
func (t *Topology) askable() (addrs []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, addr := range t.known {
		if n := t.nodes[addr]; n == nil || !n.Open() {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// apply fills the table of hash slots, and stops nodes that were not named for a while.
func (t *Topology) apply(l *layout) {
	serving := map[*Node]bool{}
	var next [slots]*Node
	for _, r := range l.ranges {
		n := t.node(r.addr)
		if n == nil {
			return
		}
		serving[n] = true
		for slot := max(r.first, 0); slot <= min(r.last, slots-1); slot++ {
			next[slot] = n
		}
	}
	for slot, n := range next {
		if t.table[slot].Load() != n {
			t.table[slot].Store(n)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for addr, n := range t.nodes {
		n.serves.Store(serving[n])
		if !serving[n] && time.Since(t.began)-time.Duration(n.named.Load()) > forgetAfter {
			n.stop()
			delete(t.nodes, addr)
		}
	}
}

// node returns the node of an address; it makes and starts one if there is none. It
// returns nil while the topology does not run.
func (t *Topology) node(addr string) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil {
		return nil
	}
	n := t.nodes[addr]
	if n == nil {
		n = t.newNode(addr)
		t.nodes[addr] = n
		n.start(t.ctx)
	}
	n.named.Store(int64(time.Since(t.began)))
	return n
}
