package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/redisstore/script"
)

// errand is one ask on its way to Redis and back. It holds all that it takes, so
// that the caller may leave before it returns. Until it is settled it belongs to
// whoever sends it; then to its call.
type errand struct {
	call  *call
	group *group // nil: alone

	ask    limiter.Ask // without its key
	script *script.Script
	mode   script.Mode
	key    string // Redis' own, with the hash tag
	debt   string // under which its debt is remembered; empty: it has none
	arg    string // the packed argument
	// The key of the names under which units come back, and these; empty: there are none.
	returns, names string
	slot           uint16

	asking  bool // it goes where an ASK sent it
	hops    int8 // how often it was redirected
	overdue bool // it gives units back: it is sent though nobody waits

	// Guarded by call.mu.
	settled bool
	fits    bool
	grant   lease.Grant
}

// call is one Acquire. Lanes settle its errands; its caller waits, and leaves.
type call struct {
	store   *Store
	errands []errand
	groups  []group

	mu      sync.Mutex
	left    bool          // the caller is gone: nothing is written any more
	pending int           // errands that are alone, and groups, that are not decided
	decided chan struct{} // gets one value when pending comes to 0
}

// newCall prepares asks: after it nothing of the caller's memory is used.
func (s *Store) newCall(asks []limiter.Ask) *call {
	c := &call{store: s, errands: make([]errand, len(asks)), decided: make(chan struct{}, 1)}
	var space [usualKey]byte
	for i := range asks {
		e := &c.errands[i]
		e.call, e.ask = c, asks[i]
		e.ask.Key, e.ask.Returned = nil, nil
		e.script = script.For(e.ask.Policy.Limit)
		e.key = string(script.AppendKey(space[:0], e.ask.Policy, asks[i].Key))
		e.debt = string(script.AppendDebtKey(space[:0], &asks[i], asks[i].Key))
		if asks[i].Returned != nil {
			e.returns = string(script.AppendReturnsKey(space[:0], &asks[i], asks[i].Key))
			e.names = string(script.AppendReturns(space[:0], &asks[i]))
		}
		e.slot = slotOf(e.key)
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
			c.groups = append(c.groups, group{members: c.errands[i : i+n], pending: n})
			c.groups[len(c.groups)-1].join()
		}
		i += n
	}
	for i := range c.errands {
		c.errands[i].load()
	}
	return c
}

// usualKey is how long a key, or an argument, may be without allocating to pack it.
const usualKey = 192

// load packs the argument for what the errand is to do now.
func (e *errand) load() {
	var space [usualKey]byte
	e.arg = string(script.AppendArgs(space[:0], &e.ask, e.mode, e.call.store.now()))
}

// settle tells the call what became of an errand. Only the first word counts. What is
// granted after the caller has left goes back.
func (c *call) settle(e *errand, g lease.Grant, fits bool, why Reason) {
	c.mu.Lock()
	if c.left || e.settled {
		back := e.late(g)
		c.mu.Unlock()
		c.store.post(back)
		return
	}
	e.settled, e.fits, e.grant = true, fits, g
	if why != None {
		c.store.unavailable(why)
	}
	var again []*errand
	over := true
	if e.group != nil {
		again, over = e.group.settled()
	}
	if over {
		c.finish()
	}
	c.mu.Unlock()
	c.store.post(again)
}

// late returns what is to be sent when an errand that is alone was granted g although
// its caller has left, and was told that it is Unavailable. A holder of slots states
// anew what it has.
func (e *errand) late(g lease.Grant) []*errand {
	if e.settled || e.overdue || e.group != nil || e.ask.Holder != 0 || g.Status != lease.OK || g.Granted == 0 {
		return nil
	}
	e.ask.Want = lease.Want{Unused: g.Granted, Lease: g.Lease}
	e.overdue = true
	return []*errand{e.again(script.Acquire)}
}

// fail settles an errand that could not be decided.
func (e *errand) fail(why Reason) {
	e.call.settle(e, lease.Grant{Status: lease.Unavailable}, false, why)
}

// finish notes that one more of what is pending is decided. The caller holds mu.
func (c *call) finish() {
	if c.pending--; c.pending == 0 {
		c.decided <- struct{}{}
	}
}

// matters reports whether anybody still waits for an errand.
func (e *errand) matters() bool {
	e.call.mu.Lock()
	defer e.call.mu.Unlock()
	return e.overdue || !e.call.left && !e.settled
}

// wait returns when everything is decided, or the time of ctx is over. Groups have
// half of that time to find out whether everybody fits: the other half is for
// charging those that did answer.
func (c *call) wait(ctx context.Context) {
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

// hasten has the groups go on without the members that have not answered.
func (c *call) hasten() {
	var again []*errand
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

// leave takes what is decided. The rest is Unavailable. What a single ask is granted
// later goes back; what a member of a group is charged later comes back with the limit's
// window, or when its slots expire.
func (c *call) leave(grants []lease.Grant) {
	var back []*errand
	c.mu.Lock()
	for i := range c.groups {
		back = append(back, c.groups[i].leave()...)
	}
	for i := range c.errands {
		e := &c.errands[i]
		if !e.settled && !e.overdue {
			e.grant = lease.Grant{Status: lease.Unavailable}
			c.store.unavailable(Deadline)
		}
		grants[i] = e.grant
	}
	c.left = true
	c.mu.Unlock()
	c.store.post(back)
}
