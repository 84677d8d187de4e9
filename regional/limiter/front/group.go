package front

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/table"
)

// place is one ask of a group, its key, and what its node would answer.
type place struct {
	shard *table.Shard[cached]
	hash  uint64
	entry *table.Entry[cached] // nil: it goes to the store as it is

	after   lease.Node // the node with the ask applied
	grant   lease.Grant
	verdict lease.Verdict
	back    lease.Part
}

// group decides on the asks of one request, all or none, while the shards of all
// of them are locked: each is tried on a copy of its node.
//
//	one is denied from memory   the others settle what they report
//	all have a lease            all are cut
//	otherwise                   all go to the store as a group
func (c *call) group(asks []limiter.Ask, at int) {
	places := make([]place, len(asks))
	for i := range asks {
		hash := c.store.table.Hash(asks[i].Policy, asks[i].Key)
		places[i] = place{shard: c.store.table.Shard(hash), hash: hash}
	}
	unlock := lockAll(places)
	defer unlock()

	refused, waits := false, false
	for i := range places {
		p := &places[i]
		c.try(p, &asks[i])
		refused = refused || p.verdict == lease.Refuse
		waits = waits || p.verdict == lease.Wait
	}
	for i := range places {
		p, a := &places[i], &asks[i]
		switch {
		case refused && p.verdict != lease.Refuse:
			c.settle(p, a, at+i)
		case waits && !refused:
			c.forward(p, a, at+i)
		default:
			c.commit(p, a, at+i)
		}
	}
}

// try applies an ask to a copy of its node.
func (c *call) try(p *place, a *limiter.Ask) {
	p.verdict = lease.Wait
	if a.Policy.Limit.Spec().Algorithm == limit.Concurrency {
		return
	}
	if p.entry = c.store.entry(p.shard, p.hash, c.now, a); p.entry != nil {
		p.entry.Value.out++ // not to be forgotten for the others' sake
		p.after = p.entry.Value.node
		p.grant, p.verdict, p.back = p.after.Acquire(&a.Policy.Terms, c.now, a.Want)
	}
}

// commit makes the try true.
func (c *call) commit(p *place, a *limiter.Ask, i int) {
	p.entry.Value.out--
	p.entry.Value.node = p.after
	c.giveBack(p)
	c.grants[i] = p.grant
	c.answered(p.verdict)
	if behind := p.after.Top(&a.Policy.Terms, c.now); behind != lease.NoAsk {
		c.store.due.add(p.shard, p.entry, reason(behind))
	}
}

// settle applies only what the ask reports: another one of the group is denied.
func (c *call) settle(p *place, a *limiter.Ask, i int) {
	reported := *a
	reported.Group = 0
	reported.Want.Need, reported.Want.Waiting, reported.Want.Want = 0, 0, 0
	if p.entry == nil {
		c.pass(&reported, i)
		return
	}
	p.entry.Value.out--
	p.grant, p.verdict, p.back = p.entry.Value.node.Acquire(&a.Policy.Terms, c.now, reported.Want)
	c.giveBack(p)
	c.grants[i] = p.grant
	c.answered(p.verdict)
}

// forward sends the ask to the store with its group. What the try cut is not
// taken; what it settled is.
func (c *call) forward(p *place, a *limiter.Ask, i int) {
	if p.entry == nil {
		c.pass(a, i)
		return
	}
	p.entry.Value.out--
	if p.verdict == lease.Wait {
		p.entry.Value.node = p.after
	} else {
		settled := a.Want
		settled.Need, settled.Waiting, settled.Want = 0, 0, 0
		_, _, p.back = p.entry.Value.node.Acquire(&a.Policy.Terms, c.now, settled)
	}
	c.giveBack(p)
	w := waiter{want: onlyAsk(a.Want), reply: c.expect(i), at: i}
	c.asking().ask(c.now, p.shard, p.entry, []waiter{w}, lease.NoAsk, a.Group)
}

func (c *call) giveBack(p *place) {
	if p.back.Units > 0 {
		c.store.due.giveBack(p.entry, p.back)
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
