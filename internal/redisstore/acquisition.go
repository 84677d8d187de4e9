package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/redisstore/script"
)

// pendingAsk is one ask on its way to Redis and back. It holds its own copy of
// everything that it needs, so that the caller may leave before the reply arrives.
// Until it is settled it belongs to the lane that sends it; then to its acquisition.
type pendingAsk struct {
	call  *acquisition
	group *group // nil: alone

	ask    limiter.Ask // without its key
	script *script.Script
	mode   script.Mode
	key    string // Redis' own, with the hash tag
	debt   string // under which its debt is remembered; empty: it has none
	arg    string // the packed argument
	// The key of the names under which units come back, and these; empty: there are none.
	returns, names string
	hashSlot       uint16

	asking  bool // it follows an ASK redirect
	hops    int8 // how often it was redirected
	overdue bool // it gives units back: it is sent even if nobody waits

	// Guarded by call.mu.
	settled bool
	fits    bool
	grant   lease.Grant
}

// acquisition is one call of [Store.Acquire]. Lanes settle its asks; its caller waits
// for them, and leaves at its deadline.
type acquisition struct {
	store  *Store
	asks   []pendingAsk
	groups []group

	mu      sync.Mutex
	left    bool          // the caller is gone: nothing is written any more
	pending int           // asks that are alone, and groups, that are not decided
	decided chan struct{} // gets one value when pending comes to 0
}

// newAcquisition prepares asks. It copies: the caller's memory is not used afterwards.
func (s *Store) newAcquisition(asks []limiter.Ask) *acquisition {
	c := &acquisition{store: s, asks: make([]pendingAsk, len(asks)), decided: make(chan struct{}, 1)}
	var space [usualKey]byte
	for i := range asks {
		p := &c.asks[i]
		p.call, p.ask = c, asks[i]
		p.ask.Key, p.ask.Returned = nil, nil
		p.script = script.For(p.ask.Policy.Limit)
		p.key = string(script.AppendKey(space[:0], p.ask.Policy, asks[i].Key))
		p.debt = string(script.AppendDebtKey(space[:0], &asks[i], asks[i].Key))
		if asks[i].Returned != nil {
			p.returns = string(script.AppendReturnsKey(space[:0], &asks[i], asks[i].Key))
			p.names = string(script.AppendReturns(space[:0], &asks[i]))
		}
		p.hashSlot = hashSlotOf(p.key)
	}
	groups := 0
	for i := 0; i < len(asks); i += limiter.GroupLen(asks[i:]) {
		c.pending++
		if limiter.GroupLen(asks[i:]) > 1 {
			groups++
		}
	}
	c.groups = make([]group, 0, groups)
	for i := 0; i < len(asks); {
		n := limiter.GroupLen(asks[i:])
		if n > 1 {
			c.groups = append(c.groups, group{members: c.asks[i : i+n], pending: n})
			c.groups[len(c.groups)-1].join()
		}
		i += n
	}
	for i := range c.asks {
		c.asks[i].load()
	}
	return c
}

// usualKey is how long a key, or an argument, may be without allocating to pack it.
const usualKey = 192

// load packs the argument for what the ask is to do now.
func (p *pendingAsk) load() {
	var space [usualKey]byte
	p.arg = string(script.AppendArgs(space[:0], &p.ask, p.mode, p.call.store.now()))
}

// settle records the outcome of an ask. Only the first outcome counts. Units that are
// granted after the caller has left are given back.
func (c *acquisition) settle(p *pendingAsk, g lease.Grant, fits bool, why Reason) {
	c.mu.Lock()
	if c.left || p.settled {
		back := p.late(g)
		c.mu.Unlock()
		c.store.post(back)
		return
	}
	p.settled, p.fits, p.grant = true, fits, g
	if why != None {
		c.store.unavailable(why)
	}
	var again []*pendingAsk
	over := true
	if p.group != nil {
		again, over = p.group.settled()
	}
	if over {
		c.finish()
	}
	c.mu.Unlock()
	c.store.post(again)
}

// late returns the ask that gives grant g back, if the caller has left with the answer
// Unavailable and the ask belongs to no group. Slots are not given back: their holder
// states anew what it holds.
func (p *pendingAsk) late(g lease.Grant) []*pendingAsk {
	if p.settled || p.overdue || p.group != nil || p.ask.Holder != 0 || g.Status != lease.OK || g.Granted == 0 {
		return nil
	}
	p.ask.Want = lease.Want{Unused: g.Granted, Lease: g.Lease}
	p.overdue = true
	return []*pendingAsk{p.again(script.Acquire)}
}

// fail settles an ask that could not be decided.
func (p *pendingAsk) fail(why Reason) {
	p.call.settle(p, lease.Grant{Status: lease.Unavailable}, false, why)
}

// finish counts one more ask or group as decided. The caller holds mu.
func (c *acquisition) finish() {
	if c.pending--; c.pending == 0 {
		c.decided <- struct{}{}
	}
}

// awaited reports whether the caller still waits for the ask, or it gives units back.
func (p *pendingAsk) awaited() bool {
	p.call.mu.Lock()
	defer p.call.mu.Unlock()
	return p.overdue || !p.call.left && !p.settled
}

// wait returns when everything is decided, or when ctx ends. Groups have half of that
// time to find out whether all of their needs fit; the other half is for charging the
// members that answered.
func (c *acquisition) wait(ctx context.Context) {
	var half <-chan time.Time
	if len(c.groups) > 0 {
		budget := 2 * c.store.config.Timeout
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
			c.hasten()
		}
	}
}

// hasten makes the groups go on without the members that have not answered.
func (c *acquisition) hasten() {
	var again []*pendingAsk
	c.mu.Lock()
	for i := range c.groups {
		charge, over := c.groups[i].hasten()
		again = append(again, charge...)
		if over {
			c.finish()
		}
	}
	c.mu.Unlock()
	c.store.post(again)
}

// leave takes the grants that are decided. The rest is Unavailable. Units that a single
// ask is granted later are given back; units that are charged later to a member of a
// group return with the limit's window, or when its slots expire.
func (c *acquisition) leave(grants []lease.Grant) {
	var back []*pendingAsk
	c.mu.Lock()
	for i := range c.groups {
		back = append(back, c.groups[i].leave()...)
	}
	for i := range c.asks {
		p := &c.asks[i]
		if !p.settled && !p.overdue {
			p.grant = lease.Grant{Status: lease.Unavailable}
			c.store.unavailable(Deadline)
		}
		grants[i] = p.grant
	}
	c.left = true
	c.mu.Unlock()
	c.store.post(back)
}
