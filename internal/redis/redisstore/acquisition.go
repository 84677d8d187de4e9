package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/rounds"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/telemetry"
)

// pendingAsk is one ask on its way to Redis and back. It holds its own copy of
// everything that it needs, so that the caller may leave before the reply arrives.
// While its reply is awaited it belongs to the lane that sends it; then to its acquisition.
type pendingAsk struct {
	call *acquisition

	ask    engine.Ask // without its key
	script *script.Script
	key    string // Redis' own, with the hash tag
	debt   string // under which its debt is remembered; empty: it has none
	arg    string // the packed argument

	// Of a limit that blocks: the key of the lockout, and the argument for that.
	block, blockArg string

	hashSlot uint16

	asking bool // it follows an ASK redirect
	hops   int8 // how often it was redirected

	// The asks of its request, which are granted all or none: call.asks[first:next].
	first, next int32
	// Guarded by call.mu. The rounds are those of the group, in its first ask.
	rounds rounds.Group
	rounds.Member
}

// acquisition is one call of [Store.Acquire]. Lanes settle its asks; its caller waits
// for them, and leaves at its deadline.
type acquisition struct {
	store   *Store
	asks    []pendingAsk
	grouped bool                    // some have a group of several
	spans   []telemetry.SpanContext // that trace its caller; nil: none

	mu      sync.Mutex
	pending int           // groups that are not decided
	decided chan struct{} // gets one value when pending comes to 0
}

// newAcquisition prepares asks. It copies: the caller's memory is not used afterwards.
func (s *Store) newAcquisition(asks []engine.Ask) *acquisition {
	c := &acquisition{store: s, asks: make([]pendingAsk, len(asks)), decided: make(chan struct{}, 1)}
	var space [usualKey]byte
	for i := range asks {
		p := &c.asks[i]
		p.call, p.ask = c, asks[i]
		p.ask.Key = nil
		p.script = script.For(p.ask.Policy.Limit)
		p.key = string(script.AppendKey(space[:0], p.ask.Policy, asks[i].Key))
		p.debt = string(script.AppendDebtKey(space[:0], &asks[i], asks[i].Key))
		p.block = string(script.AppendBlockKey(space[:0], &asks[i], asks[i].Key))
		p.hashSlot = topology.SlotOf(p.key)
	}
	for i, n := 0, 0; i < len(asks); i += n {
		n = engine.GroupLen(asks[i:])
		c.join(i, i+n)
		c.grouped = c.grouped || n > 1
	}
	return c
}

// join makes asks a group.
func (c *acquisition) join(first, next int) {
	c.pending++
	r := &c.asks[first].rounds
	if next == first+1 {
		*r = rounds.Alone()
	}
	for i := first; i < next; i++ {
		p := &c.asks[i]
		p.first, p.next = int32(first), int32(next)
		r.Join(&p.Member)
		p.load()
	}
}

// group is the asks of the request that p is of.
func (p *pendingAsk) group() []pendingAsk { return p.call.asks[p.first:p.next] }

// usualKey is how long a key, or an argument, may be without allocating to pack it.
const usualKey = 192

// load packs the arguments for what the ask is to do now.
func (p *pendingAsk) load() {
	var space [usualKey]byte
	p.arg = string(script.AppendArgs(space[:0], &p.ask, p.mode(), p.call.store.now()))
	p.blockArg = string(script.AppendBlockArgs(space[:0], &p.ask))
}

func (p *pendingAsk) mode() script.Mode {
	switch {
	case p.Round == rounds.Fit:
		return script.Fit
	case p.ask.Op == engine.Look:
		return script.Look
	case p.ask.Op == engine.Reset:
		return script.Reset
	}
	return script.Acquire
}

// again makes an ask ready for its next round.
func (p *pendingAsk) again() *pendingAsk {
	p.asking, p.hops = false, 0
	p.debt = "" // settled by the round before
	p.load()
	return p
}

// settle records the outcome of an ask, and goes on with its group. Slots that are granted
// after the caller has left are not given back: their holder states anew what it holds.
func (c *acquisition) settle(p *pendingAsk, g lease.Grant, fits bool, why reason) {
	var again []*pendingAsk
	c.mu.Lock()
	switch waits := p.Waits(); {
	case !waits && (p.ask.Holder != 0 || p.ask.Op.Operates()):
	case p.group()[0].rounds.Reply(&p.Member, &p.ask.Want, g, fits):
		again = []*pendingAsk{p.again()}
	case waits:
		if why != none && p.Round != rounds.GiveBack {
			c.store.unavailable(why)
		}
		again = c.advance(p.group())
	}
	c.mu.Unlock()
	c.store.post(again)
}

// advance returns the asks of the group's next round, if that begins. The caller holds mu.
func (c *acquisition) advance(group []pendingAsk) (again []*pendingAsk) {
	r := &group[0].rounds
	for r.Turn() {
		for i := range group {
			if p := &group[i]; r.Asks(&p.Member, &p.ask.Want) {
				again = append(again, p.again())
			}
		}
		if r.Round == rounds.Over {
			if c.pending--; c.pending == 0 {
				c.decided <- struct{}{}
			}
		}
	}
	return again
}

// fail settles an ask that could not be decided.
func (p *pendingAsk) fail(why reason) {
	p.call.settle(p, lease.Grant{Status: lease.Unavailable}, false, why)
}

// awaited reports whether the ask is still to be sent.
func (p *pendingAsk) awaited() bool {
	p.call.mu.Lock()
	defer p.call.mu.Unlock()
	return p.Waits()
}

// wait returns when everything is decided, or when ctx ends. Groups have half of that
// time to find out whether all of their needs fit; the other half is for charging the
// members that answered.
func (c *acquisition) wait(ctx context.Context) {
	var half <-chan time.Time
	if c.grouped {
		budget := 2 * c.store.topology.Config.Timeout
		if deadline, ok := ctx.Deadline(); ok {
			budget = time.Until(deadline)
		}
		timer := time.NewTimer(budget / 2)
		defer timer.Stop()
		half = timer.C
	}
	for {
		select {
		case <-c.decided:
			return
		case <-ctx.Done():
			return
		case <-half:
			c.cut((*rounds.Group).Skip)
		}
	}
}

// leave takes the grants. What is not decided is Unavailable; units that it is granted later
// are given back.
func (c *acquisition) leave(grants []lease.Grant) {
	c.cut((*rounds.Group).Leave)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.asks {
		grants[i] = c.asks[i].Grant
	}
}

// cut makes groups go on without replies that are late.
func (c *acquisition) cut(short func(*rounds.Group, *rounds.Member) bool) {
	var again []*pendingAsk
	c.mu.Lock()
	for i := 0; i < len(c.asks); i = int(c.asks[i].next) {
		group := c.asks[i].group()
		for j := range group {
			if short(&group[0].rounds, &group[j].Member) {
				c.store.unavailable(deadline)
			}
		}
		again = append(again, c.advance(group)...)
	}
	c.mu.Unlock()
	c.store.post(again)
}
