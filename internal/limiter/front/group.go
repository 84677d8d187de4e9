package front

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// party is a group that could not be decided from memory.
type party struct {
	asks   []limiter.Ask
	at     int // index of the first grant
	places []place
	put    bool // there are none left that the store decides on together, to be sent yet
}

// place is one ask of a group, its key, and what its node would answer.
type place struct {
	shard *table.Shard[cached]
	hash  uint64
	entry *table.Entry[cached] // nil: it goes to the store as it is

	after   lease.Relay // the node with the ask applied
	grant   lease.Grant
	verdict lease.Verdict
	back    lease.Part
	// together says that the store has to decide on it, with others of its kind:
	// what waits for an exact rule, or has no node.
	together bool
	// guest says that it is judged by another count than its key.
	guest bool
	// peek says that it only wants to know what its node does not: it holds up no other.
	peek bool
}

// group decides on the asks of one request, all or none, while the shards of all
// of them are locked: each is tried on a copy of its node.
//
//	one is denied from memory   the others settle what they report
//	all have a lease            all are cut
//	otherwise                   those that have one are cut, the others wait:
//	                            leased ones each in line for its key, so that
//	                            groups ask no more often than single asks; then
//	                            the rest, as a group of the store. If one of them
//	                            is denied, the others give back.
func (c *call) group(asks []limiter.Ask, at int) {
	if slices.ContainsFunc(asks, func(a limiter.Ask) bool { return a.Returned != nil }) {
		asks = slices.Clone(asks) // try takes them out
	}
	g := &party{asks: asks, at: at, places: make([]place, len(asks))}
	clear(c.grants[at : at+len(asks)]) // a denial of a call before would look like one of this group
	for i := range asks {
		hash := c.store.table.Hash(asks[i].Policy, asks[i].Key)
		g.places[i] = place{shard: c.store.table.Shard(hash), hash: hash}
	}
	unlock := lockAll(g.places)
	defer unlock()

	refused, lines, rest := false, false, false
	for i := range g.places {
		p := &g.places[i]
		c.try(p, &asks[i])
		refused = refused || p.verdict == lease.Refuse
		lines = lines || p.verdict == lease.Wait && !p.together && !p.peek
		rest = rest || p.verdict == lease.Wait && p.together
	}
	g.put = !lines || !rest
	for i := range g.places {
		p, a := &g.places[i], &asks[i]
		switch {
		case refused && p.verdict != lease.Refuse:
			c.settle(p, a, at+i)
		case p.verdict == lease.Wait:
			c.line(g, p, a, at+i)
		default:
			c.commit(p, a, at+i)
		}
	}
	if (lines || rest) && !refused {
		c.parties = append(c.parties, g)
		if g.put {
			c.together(g)
		}
	}
}

// try applies an ask to a copy of its node. What it gives back under names is settled.
func (c *call) try(p *place, a *limiter.Ask) {
	p.verdict, p.together = lease.Wait, true
	if a.Policy.Limit.Spec().Algorithm == limit.Concurrency {
		return
	}
	if p.entry = c.store.entry(p.shard, p.hash, c.now, a); p.entry != nil {
		p.entry.Value.out++ // not to be forgotten for the others' sake
		if p.guest = visits(p.entry, a.Policy); p.guest {
			c.tryGuest(p, a)
			return
		}
		if p.peek = a.Peeks() && !p.entry.Value.knows(c.now, a.Policy); p.peek {
			p.after, p.together = p.entry.Value.node, false
			return
		}
		if a.Returned != nil {
			*a = c.returns(p.shard, p.entry, a)
		}
		p.after = p.entry.Value.node
		p.together = a.Policy.Terms.Consistency == lease.Exact
		p.grant, p.verdict, p.back = p.after.Acquire(&a.Policy.Terms, c.now, a.Want)
	}
}

// tryGuest settles what a guest reports, and looks whether it is refused from memory. Else
// it waits in line.
func (c *call) tryGuest(p *place, a *limiter.Ask) {
	c.settleGuest(p.shard, p.entry, a)
	p.after, p.together = p.entry.Value.node, false
	g := *p.entry.Value.guest(c.now, a.Policy)
	if grant, denied := g.denies(c.now, onlyAsk(a.Want)); denied {
		p.grant, p.verdict = grant, lease.Refuse
		p.entry.Value.charge(c.now, p.entry.Policy, &g)
		p.after = p.entry.Value.node
	}
}

// commit makes the try true.
func (c *call) commit(p *place, a *limiter.Ask, i int) {
	c.settled(p)
	c.grants[i] = p.grant
	c.answered(p.verdict)
	c.store.top(c.now, p.shard, p.entry)
}

// settled takes over what was tried, and gives back what it gave up.
func (c *call) settled(p *place) {
	p.entry.Value.out--
	p.entry.Value.node = p.after
	c.store.giveBack(c.now, p.shard, p.entry, partOf(p.back))
}

// settle applies only what the ask reports: another one of the group is denied.
func (c *call) settle(p *place, a *limiter.Ask, i int) {
	reported := reports(a)
	if p.entry == nil {
		if c.grants[i] = (lease.Grant{Status: lease.OK, Limit: a.Policy.Terms.Capacity}); !says(&reported) {
			return
		}
		c.pass(&reported, i)
		return
	}
	p.entry.Value.out--
	if p.guest { // it is settled
		reported.Want = lease.Want{}
	}
	p.grant, p.verdict, p.back = p.entry.Value.node.Acquire(&p.entry.Policy.Terms, c.now, reported.Want)
	c.store.giveBack(c.now, p.shard, p.entry, partOf(p.back))
	if c.grants[i] = p.grant; p.guest {
		c.grants[i] = p.entry.Value.asGuest(&a.Policy.Terms, &p.entry.Policy.Terms, p.grant)
	}
	c.answered(p.verdict)
}

// reports is an ask without what it asks for.
func reports(a *limiter.Ask) limiter.Ask {
	r := *a
	r.Group = 0
	r.Want.Need, r.Want.Waiting, r.Want.Want = 0, 0, 0
	return r
}

// says reports whether an ask that asks for nothing says anything.
func says(a *limiter.Ask) bool {
	return a.Holder != 0 || a.Want.Unused > 0 || a.Want.Denied > 0
}

// line puts an ask that waits in line for its key, if its key has one. What it
// settled stays. Where others of its group have to be asked for afterwards, it waits
// for half of the time.
func (c *call) line(g *party, p *place, a *limiter.Ask, i int) {
	if p.entry == nil {
		return
	}
	c.settled(p)
	switch {
	case p.together:
	case p.guest && g.put:
		c.visitUntil(c.ends, c.expect, p.shard, p.entry, a, i)
	case p.guest:
		c.visitUntil(c.half(), c.expectLine, p.shard, p.entry, a, i)
	case p.peek:
		c.peek(p.shard, p.entry, a, i)
	case g.put:
		c.wait(p.shard, p.entry, a, i)
	default:
		c.waitUntil(c.half(), c.expectLine, p.shard, p.entry, a, i)
	}
}

// half is when half of the caller's time is over.
func (c *call) half() lease.Millis { return c.now + (c.ends-c.now)/2 }

// expectLine notes that grant i comes later, and that others of its group wait for it.
func (c *call) expectLine(i int) *reply {
	if c.lines == nil {
		c.lines = newReply(c.grants)
	}
	c.lines.expect(i)
	return c.lines
}

// together sends those asks of a group on which the store decides, in one group.
// Their shards are locked.
func (c *call) together(g *party) {
	g.put = true
	for i := range g.places {
		p, a := &g.places[i], &g.asks[i]
		switch {
		case !p.together || p.verdict != lease.Wait:
		case p.entry == nil:
			c.pass(a, g.at+i)
		case c.now < p.entry.Value.away:
			c.unavailable(g.at + i)
		default:
			w := waiter{want: onlyAsk(a.Want), reply: c.expect(g.at + i), at: g.at + i}
			c.asking().ask(c.now, p.shard, p.entry, []waiter{w}, lease.NoAsk, a.Group)
		}
	}
}

// gather waits until groups know of those in line, or half of the time is over, and
// asks for the rest.
func (c *call) gather(ctx context.Context) {
	half, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	c.lines.wait(half)
	cancel()
	for _, g := range c.parties {
		if !g.put && !c.refusedIn(g) {
			c.join(g)
		}
	}
}

// dissolve ends the groups that waited, of which a member was denied.
func (c *call) dissolve(ctx context.Context) {
	for _, g := range c.parties {
		if c.refusedIn(g) {
			c.takeApart(g)
		}
	}
	c.finish(ctx)
}

// refusedIn reports whether a member of a group was denied.
func (c *call) refusedIn(g *party) bool {
	for _, grant := range c.grants[g.at : g.at+len(g.asks)] {
		if grant.Status == lease.Denied {
			return true
		}
	}
	return false
}

// join sends the rest of a group. Its nodes may have been forgotten meanwhile.
func (c *call) join(g *party) {
	unlock := lockAll(g.places)
	defer unlock()
	c.now = c.store.now()
	for i := range g.places {
		if p := &g.places[i]; p.together && p.entry != nil {
			if p.entry = c.store.entry(p.shard, p.hash, c.now, &g.asks[i]); p.entry != nil {
				p.entry.Value.out++ // not to be forgotten for the others' sake
			}
		}
	}
	for i := range g.places {
		if p := &g.places[i]; p.together && p.entry != nil {
			p.entry.Value.out--
		}
	}
	c.together(g)
}

// takeApart takes back what the members of a denied group were granted. Of those
// that the store would have decided on, it hears what they report. What it answered
// a holder of slots is what that uses, and stays.
func (c *call) takeApart(g *party) {
	for i := range g.asks {
		a, grant := &g.asks[i], &c.grants[g.at+i]
		switch p := &g.places[i]; {
		case p.together && p.verdict == lease.Wait && !g.put:
			*grant = lease.Grant{Status: lease.OK, Limit: a.Policy.Terms.Capacity}
			if r := reports(a); p.entry == nil && says(&r) {
				c.pass(&r, g.at+i)
			}
		case a.Holder == 0 && grant.Status == lease.OK && grant.Granted > 0:
			c.store.takeBackFor(a, *grant)
			*grant = lease.Grant{Status: lease.OK, Limit: grant.Limit, Remaining: grant.Remaining + grant.Granted, Reset: grant.Reset}
		}
	}
}

// takeBackFor settles a grant on an ask whose request was denied.
func (s *Store) takeBackFor(a *limiter.Ask, g lease.Grant) {
	known := s.withEntry(a, func(shard *table.Shard[cached], e *table.Entry[cached]) {
		s.takeBack(s.now(), shard, e, a.Policy, g)
	})
	if !known {
		s.due.giveBack(a, g)
	}
}

// lockAll locks each shard once, in the order in which everybody does.
func lockAll(places []place) (unlock func()) {
	shards := make([]*table.Shard[cached], len(places))
	for i := range places {
		shards[i] = places[i].shard
	}
	slices.SortFunc(shards, func(a, b *table.Shard[cached]) int { return a.Number() - b.Number() })
	shards = slices.Compact(shards)
	for _, s := range shards {
		s.Lock()
	}
	return func() {
		for _, s := range shards {
			s.Unlock()
		}
	}
}
