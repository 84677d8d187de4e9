package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redisstore/script"
)

const (
	// longestPipeline is the most asks that travel together: about a millisecond
	// of a Redis core, for which everybody else waits.
	longestPipeline = 128
	// mostHops is how often an ask follows MOVED and ASK before it is given up.
	mostHops = 4
)

// lane sends what gathers for its node, one pipeline after the other.
func (n *node) lane(ctx context.Context) {
	batch := make([]*errand, 0, longestPipeline)
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
func (n *node) send(ctx context.Context, batch []*errand) {
	if n.open.Load() {
		failAll(batch, Breaker)
		return
	}
	going := batch[:0]
	for _, e := range batch {
		if e.matters() {
			going = append(going, e)
		}
	}
	unknown := n.exchange(ctx, going, false)
	if len(unknown) > 0 {
		for _, e := range n.exchange(ctx, unknown, true) {
			e.fail(Server) // flushed again in that moment
		}
	}
}

// exchange sends errands as one pipeline and settles them, or sends them on. It
// returns those whose script the server does not know, which it did not run: they
// may be sent again, with the source.
func (n *node) exchange(ctx context.Context, errands []*errand, source bool) (unknown []*errand) {
	if len(errands) == 0 {
		return nil
	}
	client, generation := n.current()
	pipe := client.Pipeline()
	cmds := make([]*redis.StringCmd, len(errands))
	var loaded map[*script.Script]bool
	if source {
		loaded = map[*script.Script]bool{}
	}
	for i, e := range errands {
		name, body := evalSHA, &e.script.SHA
		if source && !loaded[e.script] { // the first one loads it for those behind it
			name, body = eval, &e.script.Source
			loaded[e.script] = true
		}
		cmds[i] = e.command(ctx, name, body)
		if e.asking {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "ASKING"))
		}
		_ = pipe.Process(ctx, cmds[i]) // it only queues
	}
	began := time.Now()
	_, err := pipe.Exec(ctx)
	n.observe(len(errands), time.Since(began))
	o, why := n.heard(cmds, err)
	n.report(generation, o, why)
	for i, e := range errands {
		if n.settle(e, cmds[i], err) == noScript {
			unknown = append(unknown, e)
		}
	}
	return unknown
}

// command is the call of a script for an errand.
func (e *errand) command(ctx context.Context, name any, body *string) *redis.StringCmd {
	switch {
	case e.returns != "" && e.debt != "":
		return redis.NewStringCmd(ctx, name, body, threeKeys, &e.key, &e.debt, &e.returns, &e.arg, &e.names)
	case e.returns != "":
		return redis.NewStringCmd(ctx, name, body, twoKeys, &e.key, &e.returns, &e.arg, &e.names)
	case e.debt != "":
		return redis.NewStringCmd(ctx, name, body, twoKeys, &e.key, &e.debt, &e.arg)
	}
	return redis.NewStringCmd(ctx, name, body, oneKey, &e.key, &e.arg)
}

// The words of a command, boxed once.
var (
	evalSHA   any = "EVALSHA"
	eval      any = "EVAL"
	oneKey    any = 1
	twoKeys   any = 2
	threeKeys any = 3
)

func (n *node) observe(errands int, took time.Duration) {
	c := &n.store.counters
	c.pipelines.Add(1)
	c.commands.Add(uint64(errands))
	if m := &n.store.metrics; m.seconds != nil {
		m.seconds.Observe(took.Seconds())
		m.length.Observe(float64(errands))
	}
}

// heard is how a pipeline ended: answered if every command has a reply.
func (n *node) heard(cmds []*redis.StringCmd, err error) (outcome, error) {
	if last := cmds[len(cmds)-1]; replied(last) {
		return answered, nil
	} else if last.Err() != nil {
		err = last.Err()
	} else if err == nil {
		err = errNoReply
	}
	return outcomeOf(err), err
}

// settle reads the reply to an errand. pipeline is the error of the whole, which
// holds for a command that has neither reply nor error of its own.
func (n *node) settle(e *errand, cmd *redis.StringCmd, pipeline error) verdict {
	reply, err := cmd.Result()
	if err == nil && reply == "" {
		if err = pipeline; err == nil {
			err = errNoReply
		}
		n.settleUnheard(e, err)
		return unheard
	}
	v, addr := verdictOf(err)
	switch v {
	case done:
		n.settleReply(e, reply)
	case noScript: // the caller sends it again
	case moved, ask:
		n.redirect(e, addr, v == ask)
	case stale:
		n.complain(err) // if no other master takes over, this does not pass by itself
		n.store.requestReload()
		e.fail(Moved)
	case full:
		e.fail(Full)
	case unheard:
		n.settleUnheard(e, err)
	default:
		n.complain(err)
		e.fail(Server)
	}
	return v
}

func (n *node) settleReply(e *errand, reply string) {
	g, fits, err := script.Parse(reply, &e.ask, e.mode)
	if errors.Is(err, script.ErrForeign) {
		n.complain(fmt.Errorf("%.200q: %w", e.key, err))
		e.fail(Foreign)
		return
	}
	if err != nil {
		n.complain(err)
		e.fail(Server)
		return
	}
	why := None
	if g.Status == lease.Unavailable && e.ask.Holder == 0 {
		why = Full // for slots it may as well be a statement that came too late
	}
	e.call.settle(e, g, fits, why)
}

// settleUnheard settles an errand that may have been applied or not: it is not
// sent again.
func (n *node) settleUnheard(e *errand, err error) {
	if isReply(err) { // the connection was refused by the server, not by the network
		n.complain(err)
		e.fail(Server)
		return
	}
	e.fail(reasonOf(err))
}

// redirect sends an errand on to the node that serves its key: for good after
// MOVED, for this once after ASK.
func (n *node) redirect(e *errand, addr string, asking bool) {
	e.hops++
	var to *node
	if addr = fullAddress(addr, n.addr); addr != "" && e.hops <= mostHops {
		to = n.store.node(addr)
	}
	if to == nil {
		n.store.requestReload()
		e.fail(Moved)
		return
	}
	n.store.counters.redirects.Add(1)
	if !asking {
		n.store.table[e.slot].Store(to)
		n.store.requestReload()
	}
	e.asking = asking
	to.post([]*errand{e})
}

// complain logs what the server refuses, once in a while.
func (n *node) complain(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := n.since(); now >= n.quietUntil {
		n.quietUntil = now + complainEvery
		n.store.config.Log.Error("redis refuses: what it was asked is unavailable", "addr", n.addr, "error", n.store.config.advised(err))
	}
}

const complainEvery = 10 * time.Second
