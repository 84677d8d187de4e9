package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// longestPipeline is how many asks travel together at most: about a millisecond
	// of a Redis core, for which all other clients wait.
	longestPipeline = 128
	// mostHops is how many MOVED and ASK redirects an ask follows before it is given up.
	mostHops = 4
)

// lane sends the asks that gather for its node, one pipeline after the other.
func (n *node) lane(ctx context.Context) {
	batch := make([]*pendingAsk, 0, longestPipeline)
	for {
		batch = n.queue.take(batch[:0], longestPipeline)
		if len(batch) == 0 || ctx.Err() != nil {
			failAll(batch, Network)
			failAll(n.queue.drain(), Network)
			return
		}
		n.send(ctx, batch)
		clear(batch)
	}
}

// send sends a batch and settles it.
func (n *node) send(ctx context.Context, batch []*pendingAsk) {
	if n.open.Load() {
		failAll(batch, Breaker)
		return
	}
	going := batch[:0]
	for _, p := range batch {
		if p.awaited() {
			going = append(going, p)
		}
	}
	unknown := n.exchange(ctx, going, false)
	if len(unknown) > 0 {
		for _, p := range n.exchange(ctx, unknown, true) {
			p.fail(Server) // the scripts were flushed again at that moment
		}
	}
}

// exchange sends asks as one pipeline and settles them, or forwards them. It returns
// those whose script is not loaded on the server. The server did not run these: they
// may be sent again, with the source.
func (n *node) exchange(ctx context.Context, asks []*pendingAsk, source bool) (unknown []*pendingAsk) {
	if len(asks) == 0 {
		return nil
	}
	client, generation := n.current()
	pipe := client.Pipeline()
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
	ctx, span := n.trace(ctx, asks)
	began := time.Now()
	_, err := pipe.Exec(ctx)
	n.observe(len(asks), time.Since(began))
	o, why := n.outcome(cmds, err)
	if why != nil {
		telemetry.Fail(span, why)
	}
	span.End()
	n.report(ctx, generation, o, why)
	for i, p := range asks {
		if n.settle(p, cmds[i], err) == noScript {
			unknown = append(unknown, p)
		}
	}
	return unknown
}

// command is the call of a script for an ask.
func (p *pendingAsk) command(ctx context.Context, name any, body *string) *redis.StringCmd {
	if p.debt != "" {
		return redis.NewStringCmd(ctx, name, body, twoKeys, &p.key, &p.debt, &p.arg)
	}
	return redis.NewStringCmd(ctx, name, body, oneKey, &p.key, &p.arg)
}

// The words of a command, boxed once.
var (
	evalSHA any = "EVALSHA"
	eval    any = "EVAL"
	oneKey  any = 1
	twoKeys any = 2
)

func (n *node) observe(asks int, took time.Duration) {
	c := &n.store.counters
	c.pipelines.Add(1)
	c.commands.Add(uint64(asks))
	if m := &n.store.metrics; m.seconds != nil {
		m.seconds.Observe(took.Seconds())
		m.length.Observe(float64(asks))
	}
}

// outcome returns how a pipeline ended: answered if every command has a reply.
func (n *node) outcome(cmds []*redis.StringCmd, err error) (outcome, error) {
	last := cmds[len(cmds)-1]
	if replied(last) {
		return answered, nil
	}
	err = cmp.Or(last.Err(), err, errNoReply)
	return outcomeOf(err), err
}

// settle reads the reply to an ask. pipeline is the error of the whole, which
// holds for a command that has neither reply nor error of its own.
func (n *node) settle(p *pendingAsk, cmd *redis.StringCmd, pipeline error) replyKind {
	reply, err := cmd.Result()
	if err == nil && reply == "" {
		n.settleUnanswered(p, cmp.Or(pipeline, errNoReply))
		return noReply
	}
	v, addr := replyKindOf(err)
	switch v {
	case done:
		n.settleReply(p, reply)
	case noScript: // the caller sends it again
	case moved, ask:
		n.redirect(p, addr, v == ask)
	case stale:
		n.logRefusal(err) // this lasts until another master takes over
		n.store.requestReload()
		p.fail(Moved)
	case full:
		p.fail(Full)
	case noReply:
		n.settleUnanswered(p, err)
	default:
		n.logRefusal(err)
		p.fail(Server)
	}
	return v
}

func (n *node) settleReply(p *pendingAsk, reply string) {
	g, fits, err := script.Parse(reply, &p.ask, p.mode())
	if errors.Is(err, script.ErrForeign) {
		n.logRefusal(fmt.Errorf("%.200q: %w", p.key, err))
		p.fail(Foreign)
		return
	}
	if err != nil {
		n.logRefusal(err)
		p.fail(Server)
		return
	}
	why := None
	if g.Status == lease.Unavailable && p.ask.Holder == 0 {
		why = Full // for slots it may also be a statement that came too late
	}
	p.call.settle(p, g, fits, why)
}

// settleUnanswered settles an ask that may have been applied or not: it is not
// sent again.
func (n *node) settleUnanswered(p *pendingAsk, err error) {
	if isReply(err) { // the server refused the connection, not the network
		n.logRefusal(err)
		p.fail(Server)
		return
	}
	p.fail(reasonOf(err))
}

// redirect sends an ask to the node that serves its key: permanently after MOVED, only
// this time after ASK.
func (n *node) redirect(p *pendingAsk, addr string, asking bool) {
	p.hops++
	var to *node
	if addr = fullAddress(addr, n.addr); addr != "" && p.hops <= mostHops {
		to = n.store.node(addr)
	}
	if to == nil {
		n.store.requestReload()
		p.fail(Moved)
		return
	}
	n.store.counters.redirects.Add(1)
	if !asking {
		n.store.table[p.hashSlot].Store(to)
		n.store.requestReload()
	}
	p.asking = asking
	to.post([]*pendingAsk{p})
}

// logRefusal logs an error of the server, at most once in refusalEvery.
func (n *node) logRefusal(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := n.since(); now >= n.quietUntil {
		n.quietUntil = now + refusalEvery
		n.store.config.Log.Error("redis refuses commands; its keys are unavailable", "addr", n.addr, "error", n.store.config.advised(err))
	}
}

const refusalEvery = 10 * time.Second
