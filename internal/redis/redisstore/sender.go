package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// longestPipeline is how many asks travel together at most: about a millisecond
	// of a Redis core, for which all other clients wait.
	longestPipeline = 128
	// mostHops is how many MOVED and ASK redirects an ask follows before it is given up.
	mostHops = 4
)

// sender sends the asks for one node: a queue, and the lanes that take from it. It is safe
// for concurrent use.
type sender struct {
	store *Store
	node  *topology.Node
	queue *queue
}

func senderOf(n *topology.Node) *sender { return n.Sender.(*sender) }

// post queues asks. It settles them at once if the breaker is open or the queue is full.
func (s *sender) post(asks []*pendingAsk) {
	if s.node.Open() {
		failAll(asks, breakerOpen)
		return
	}
	taken := s.queue.put(asks)
	failAll(asks[taken:], queueFull)
}

// Run runs the lanes until ctx ends. Asks that wait then are Unavailable.
func (s *sender) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.queue.close)()
	var lanes sync.WaitGroup
	for range s.store.config.Lanes {
		lanes.Go(func() { s.lane(ctx) })
	}
	lanes.Wait()
}

// lane sends what gathers in the queue, one pipeline after the other. When the breaker opens,
// the lane whose pipeline failed empties the queue.
func (s *sender) lane(ctx context.Context) {
	batch := make([]*pendingAsk, 0, longestPipeline)
	for {
		batch = s.queue.take(batch[:0], longestPipeline)
		switch {
		case len(batch) == 0: // the queue is closed
			return
		case ctx.Err() != nil:
			failAll(batch, network)
		case s.node.Open():
			failAll(batch, breakerOpen)
		default:
			s.send(ctx, batch)
		}
		clear(batch)
	}
}

// send sends a batch and settles it.
func (s *sender) send(ctx context.Context, batch []*pendingAsk) {
	going := batch[:0]
	for _, p := range batch {
		if p.awaited() {
			going = append(going, p)
		}
	}
	unknown := s.exchange(ctx, going, false)
	for _, p := range s.exchange(ctx, unknown, true) {
		p.fail(rejected) // the scripts were flushed again at that moment
	}
}

// exchange sends asks as one pipeline and settles them, or forwards them. It returns
// those whose script is not loaded on the server. The server did not run these: they
// may be sent again, with the source.
func (s *sender) exchange(ctx context.Context, asks []*pendingAsk, source bool) (unknown []*pendingAsk) {
	if len(asks) == 0 {
		return nil
	}
	pipe := s.node.Pipeline()
	cmds := make([]*redis.StringCmd, len(asks))
	var loaded map[*script.Script]bool
	if source {
		loaded = map[*script.Script]bool{}
	}
	for i, p := range asks {
		name, body := evalSHA, &p.script.SHA
		if source && !loaded[p.script] { // the first one loads it for the others
			name, body = eval, &p.script.Source
			loaded[p.script] = true
		}
		cmds[i] = p.command(ctx, name, body)
		if p.asking {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "ASKING"))
		}
		_ = pipe.Process(ctx, cmds[i]) // it only queues
	}
	ctx, span := s.trace(ctx, asks)
	began := time.Now()
	err := pipe.Exec(ctx)
	s.store.observed(len(asks), time.Since(began))
	if err != nil {
		telemetry.Fail(span, err)
	}
	span.End()
	for i, p := range asks {
		if s.settle(p, cmds[i]) == topology.NoScript {
			unknown = append(unknown, p)
		}
	}
	return unknown
}

// command is the call of a script for an ask.
func (p *pendingAsk) command(ctx context.Context, name any, body *string) *redis.StringCmd {
	if p.debt == "" && p.block == "" {
		return redis.NewStringCmd(ctx, name, body, oneKey, &p.key, &p.arg)
	}
	keys, args := []any{&p.key}, []any{&p.arg}
	if p.block != "" {
		keys, args = append(keys, &p.block), append(args, &p.blockArg)
	}
	if p.debt != "" {
		keys = append(keys, &p.debt)
	}
	return redis.NewStringCmd(ctx, slices.Concat([]any{name, body, len(keys)}, keys, args)...)
}

// The words of a command, boxed once.
var (
	evalSHA any = "EVALSHA"
	eval    any = "EVAL"
	oneKey  any = 1
)

// settle reads the reply to an ask.
func (s *sender) settle(p *pendingAsk, cmd *redis.StringCmd) topology.Kind {
	text, err := cmd.Result()
	reply := topology.ReplyOf(err)
	switch reply.Kind {
	case topology.Done:
		s.settleDone(p, text)
	case topology.NoScript: // the caller sends it again
	case topology.Moved, topology.Ask:
		s.redirect(p, reply)
	case topology.Stale:
		s.node.LogRejection(err) // this lasts until another master takes over
		s.store.topology.Reload()
		p.fail(moved)
	case topology.Full:
		p.fail(full)
	case topology.NoReply: // it may have been applied or not: it is not sent again
		if topology.TimedOut(err) {
			p.fail(timedOut)
		} else {
			p.fail(network)
		}
	default:
		s.node.LogRejection(err)
		p.fail(rejected)
	}
	return reply.Kind
}

func (s *sender) settleDone(p *pendingAsk, text string) {
	g, fits, err := script.Parse(text, &p.ask, p.mode())
	if errors.Is(err, script.ErrForeign) {
		s.node.LogRejection(fmt.Errorf("%.200q: %w", p.key, err))
		p.fail(foreign)
		return
	}
	if err != nil {
		s.node.LogRejection(err)
		p.fail(rejected)
		return
	}
	why := none
	if g.Status == lease.Unavailable && p.ask.Holder == 0 {
		why = full // for slots it may also be a statement that came too late
	}
	p.call.settle(p, g, fits, why)
}

// redirect sends an ask to the node that serves its key.
func (s *sender) redirect(p *pendingAsk, r topology.Reply) {
	var to *topology.Node
	if p.hops++; p.hops <= mostHops {
		to = s.node.Follow(r, p.hashSlot)
	} else {
		s.store.topology.Reload()
	}
	if to == nil {
		p.fail(moved)
		return
	}
	p.asking = r.Kind == topology.Ask
	senderOf(to).post([]*pendingAsk{p})
}
