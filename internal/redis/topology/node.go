package topology

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/repeat"
)

// Node is a master: its client, and its breaker. It is safe for concurrent use.
type Node struct {
	Addr   string
	Sender Sender // the user's, see [Use]

	topology *Topology
	client   atomic.Pointer[redis.Client] // replaced after an outage
	stop     context.CancelFunc

	health atomic.Int32 // readable without mu
	serves atomic.Bool  // the table of hash slots names it
	named  atomic.Int64 // when the topology or a redirect last named it, since topology.began

	memory  atomic.Pointer[memory] // as stated last; nil: not known
	rejects atomic.Int64           // ns after topology.began since when it rejects everything; 0: it does not

	mu      sync.Mutex
	breaker breaker
	last    error         // the last error
	opened  chan struct{} // gets a value when the breaker opens

	rejections repeat.OncePerMinute
}

// How a node is, by what it answered last.
const (
	unasked   = iota
	answering // since the breaker was last open
	open      // its breaker is open
)

// connect makes a client of a node. It connects when it is used.
func (t *Topology) connect(addr string) *redis.Client {
	return redis.NewClient(t.Config.options(addr, t.use.Connections+1)) // one to load scripts
}

func (t *Topology) newNode(addr string) *Node {
	n := &Node{Addr: addr, topology: t, opened: make(chan struct{}, 1)}
	n.client.Store(t.connect(addr))
	n.Sender = t.use.Sender(n)
	return n
}

// start runs the node's goroutines until ctx ends or the node is stopped.
func (n *Node) start(ctx context.Context) {
	ctx, n.stop = context.WithCancel(ctx)
	n.topology.running.Go(func() { n.Sender.Run(ctx) })
	n.topology.running.Go(func() { n.tend(ctx) })
	n.topology.running.Go(func() { n.measure(ctx) })
}

// Open reports whether the breaker of the node is open: it does not answer, and what is sent
// to it fails.
func (n *Node) Open() bool { return n.health.Load() == open }

// Client returns a client for a few commands beside the pipelines, which do not count in the
// breaker. Do not keep it.
func (n *Node) Client() *redis.Client { return n.client.Load() }

// Pipeline gathers commands for a node. It belongs to one goroutine, which executes it once.
type Pipeline struct {
	redis.Pipeliner
	node       *Node
	generation uint64 // of the breaker when it began
}

// Pipeline begins a pipeline. How it ends counts in the breaker.
func (n *Node) Pipeline() Pipeline {
	client, generation := n.current()
	return Pipeline{client.Pipeline(), n, generation}
}

// Exec sends the commands, each once. Then each of them has a reply or an error. It returns an
// error if the last one has no reply of the server.
func (p *Pipeline) Exec(ctx context.Context) error {
	cmds, err := p.Pipeliner.Exec(ctx)
	last := cmds[len(cmds)-1]
	var failure error
	if !replied(last) {
		failure = cmp.Or(last.Err(), err, errNoReply)
	}
	p.node.report(ctx, p.generation, outcomeOf(failure), failure)
	for _, c := range cmds {
		if c.Err() == nil && !replied(c) {
			c.SetErr(cmp.Or(err, errNoReply))
		}
	}
	p.node.noteRejections(p.generation, cmds)
	return failure
}

// mostRejections is for how long a node may reject everything before it is connected anew.
const mostRejections = time.Second

// noteRejections connects a node anew that rejects everything for a while: its address may lead to
// another server by now, and the connections to one that was demoted.
func (n *Node) noteRejections(generation uint64, cmds []redis.Cmder) {
	rejected := false
	for _, c := range cmds {
		switch ReplyOf(c.Err()).Kind {
		case Stale, Rejected:
			rejected = true
		case NoScript, NoReply: // the former is followed by the same with the source
		default:
			n.rejects.Store(0)
			return
		}
	}
	now := int64(time.Since(n.topology.began))
	if !rejected || n.rejects.CompareAndSwap(0, now) || now-n.rejects.Load() < int64(mostRejections) {
		return
	}
	n.rejects.Store(0)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.breaker.Open && n.breaker.generation == generation {
		n.breaker.generation++ // pipelines of the old client do not count any more
		closeClient(n.client.Swap(n.topology.connect(n.Addr)))
		n.topology.Reload()
	}
}

// errNoReply is for a command without a reply or an error.
var errNoReply = errors.New("no reply")

// replied reports whether a command of a pipeline has a reply of the server. A
// connection that could not be set up leaves neither reply nor error behind.
func replied(c redis.Cmder) bool {
	if err := c.Err(); err != nil {
		return isReply(err)
	}
	switch c := c.(type) {
	case *redis.StringCmd:
		return c.Val() != ""
	case *redis.Cmd:
		return c.Val() != nil
	}
	return true
}

// Follow returns the node that serves a hash slot according to n's reply: for good if it is
// Moved, for one command if it is Ask. nil: there is no such node.
func (n *Node) Follow(r Reply, slot uint16) (to *Node) {
	t := n.topology
	if addr := fullAddress(r.Addr, n.Addr); addr != "" {
		to = t.node(addr)
	}
	if to == nil {
		t.Reload()
		return nil
	}
	t.metrics.redirects.Inc()
	if r.Kind == Moved {
		t.table[slot].Store(to)
		t.Reload()
	}
	return to
}

// tend loads the scripts, and probes the node while its breaker is open.
func (n *Node) tend(ctx context.Context) {
	defer func() { closeClient(n.client.Load()) }()
	soon, cancel := context.WithTimeout(ctx, time.Second)
	repeat.Until(soon, time.Millisecond, n.serves.Load) // its hash slots are known, if it has any
	cancel()
	client, generation := n.current()
	o, err := answered, n.prepare(ctx, client)
	if err != nil {
		o = timedOut // it never answered
	}
	n.report(ctx, generation, o, err)
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.opened:
		}
		for n.Open() {
			if n.serves.Load() { // else another master has taken over
				n.topology.Reload()
			}
			if !repeat.Sleep(ctx, n.untilProbe()) {
				return
			}
			n.probe(ctx)
		}
	}
}

// prepare loads the scripts, which also shows that the server answers, and calls every command that
// is needed later, which shows that the user may.
func (n *Node) prepare(ctx context.Context, client *redis.Client) error {
	use, pipe := &n.topology.use, client.Pipeline()
	if n.topology.Config.Mode == auto || n.topology.Config.Mode == Cluster {
		_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "ASKING")) // of the next command
	}
	for _, source := range use.Scripts {
		pipe.ScriptLoad(ctx, source)
	}
	script, key := redis.NewScript(use.Probe), []string{n.ownKey(use.Key)}
	probe, last := script.Eval(ctx, pipe, key), script.EvalSha(ctx, pipe, key)
	cmds, err := pipe.Exec(ctx)
	for _, c := range cmds {
		err := c.Err()
		if err != nil && (standby(err) || forbidden(err) || c == probe && ReplyOf(err).Kind == Rejected) {
			return err
		}
	}
	if !replied(last) {
		return cmp.Or(last.Err(), err, errNoReply)
	}
	return nil
}

// ownKey returns a name that begins with prefix and is in a hash slot of this node, if it serves any.
func (n *Node) ownKey(prefix string) (name string) {
	for i := range 4 * slots {
		name = prefix + "{" + strconv.Itoa(i) + "}"
		if !n.serves.Load() || n.topology.At(SlotOf(name)) == n {
			break
		}
	}
	return name
}

// probe tests over new connections whether the node answers again: the old ones may
// lead to a server that is gone.
func (n *Node) probe(ctx context.Context) {
	client := n.topology.connect(n.Addr)
	err := n.prepare(ctx, client)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.breaker.Probed(n.now(), jitter())
		n.last = err
		closeClient(client)
		return
	}
	n.breaker.Answered(0)
	closeClient(n.client.Swap(client))
	n.health.Store(answering)
	n.topology.Config.Log.Info("redis answers again", "addr", n.Addr)
}

// current returns the client to use now, and the generation to report with.
func (n *Node) current() (client *redis.Client, generation uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.client.Load(), n.breaker.generation
}

// report records in the breaker how a pipeline ended.
func (n *Node) report(ctx context.Context, generation uint64, o outcome, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts, opened := n.breaker.report(generation, o, n.now(), jitter())
	if !counts {
		return
	}
	if err == nil {
		n.health.Store(answering)
		return
	}
	n.last = err
	if !opened {
		return
	}
	n.health.Store(open)
	n.topology.metrics.opened.Inc()
	n.topology.Config.Log.WarnContext(ctx, "redis does not answer; its keys are unavailable", "addr", n.Addr,
		"error", n.topology.Config.Advised(err), "runbook", "docs/runbooks/WeirRedisUnavailable.md")
	select {
	case n.opened <- struct{}{}:
	default:
	}
}

// LogRejection logs an error of the server, at most once a minute.
func (n *Node) LogRejection(err error) {
	if n.rejections.Now() {
		n.topology.Config.Log.Error("redis rejects commands; its keys are unavailable", "addr", n.Addr, "error", n.topology.Config.Advised(err))
	}
}

func (n *Node) untilProbe() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(max(0, n.breaker.ProbeAt-n.now())) * time.Millisecond
}

// now is the clock of the breaker.
func (n *Node) now() lease.Millis { return lease.Millis(time.Since(n.topology.began).Milliseconds()) }

// jitter is in percent, so that replicas do not probe at the same time.
func jitter() lease.Percent { return lease.Percent(repeat.Jittered(100)) }

// answers reports whether the node answered the last pipeline or probe.
func (n *Node) answers() bool { return n.health.Load() == answering }

// trouble returns the last error.
func (n *Node) trouble() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cmp.Or(n.last, errors.New("not asked yet"))
}

func closeClient(c io.Closer) { _ = c.Close() } // of a pool: nothing is lost with it
