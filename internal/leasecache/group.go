package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// group is the asks of one request: all of them are granted, or none.
type group struct {
	asks    []engine.Ask
	at      int // index of the first grant
	members []member
	sent    bool // no joint asks are left to be sent
}

// member is one ask of a group, its key, and what its relay would answer.
type member struct {
	key // without an entry: the ask goes to the store as it is

	after   lease.Relay // the relay with the ask applied
	grant   lease.Grant
	verdict lease.Verdict
	back    lease.Part
	joint   bool // the store decides on it with others of its group: it is of an exact rule, or has no entry
	exact   bool // its key is exact: it is asked for alone
	peek    bool // it only reads what is left, and memory has no answer: no other waits for it
}

// group decides on the asks of one request while the shards of all of them are locked:
// each is tried on a copy of its relay.
//
//	one is denied from memory   the others settle what they report
//	all have a lease            all are cut
//	otherwise                   those that have one are cut, the others wait:
//	                            leased ones each in the queue of its key, so that
//	                            groups ask no more often than single asks; then
//	                            the rest, as a group of the store (joint.go). If
//	                            one of them is denied, the others give back.
func (q *acquisition) group(asks []engine.Ask, at int) {
	g := &group{asks: asks, at: at, members: make([]member, len(asks))}
	clear(q.grants[at : at+len(asks)]) // a denial of a call before would look like one of this group
	for i := range asks {
		g.members[i].key = q.store.keyOf(&asks[i])
	}
	unlock := g.lock()
	defer unlock()

	refused, queued, joint := false, false, false
	for i := range g.members {
		m := &g.members[i]
		q.try(m, &asks[i])
		refused = refused || m.verdict == lease.Refuse
		queued = queued || m.verdict == lease.Wait && !m.joint && !m.peek
		joint = joint || m.verdict == lease.Wait && m.joint
	}
	g.sent = !queued || !joint
	for i := range g.members {
		m, a := &g.members[i], &asks[i]
		switch {
		case refused && m.verdict != lease.Refuse:
			q.settle(m, a, at+i)
		case m.verdict == lease.Wait:
			q.queue(g, m, a, at+i)
		default:
			q.commit(m, a, at+i)
		}
	}
	if (queued || joint) && !refused {
		q.groups = append(q.groups, g)
		if g.sent {
			q.sendJoint(g)
		}
	}
}

// lock locks the shards of a group.
func (g *group) lock() (unlock func()) {
	shards := make([]*table.Shard[cached], len(g.members))
	for i := range g.members {
		shards[i] = g.members[i].shard
	}
	shards = table.LockAll(shards)
	return func() { table.UnlockAll(shards) }
}

// try applies an ask to a copy of its relay.
func (q *acquisition) try(m *member, a *engine.Ask) {
	m.verdict, m.joint = lease.Wait, true
	if a.Policy.Limit.Spec().Algorithm == limit.Concurrency || !m.findOrAdd(q.now, a) {
		return
	}
	m.Value.out++ // not to be evicted for another of the group
	if m.exact = m.isExact(q.now, a.Policy); m.exact {
		m.after, m.joint = m.Value.relay, false
		if x := m.Value.exact; x.refuses(q.now, a) {
			m.grant, m.verdict = x.refusal(q.now, a), lease.Refuse
		}
		return
	}
	if m.peek = a.Peeks() && !m.answersPeek(q.now, a.Policy); m.peek {
		m.after, m.joint = m.Value.relay, false
		return
	}
	m.after = m.Value.relay
	m.joint = a.Policy.Terms.Consistency == lease.Exact
	m.grant, m.verdict, m.back = m.after.Acquire(&a.Policy.Terms, q.now, a.Want)
}

// commit answers a member by what was tried.
func (q *acquisition) commit(m *member, a *engine.Ask, i int) {
	q.keepTry(m)
	q.grants[i] = m.grant
	q.answered(m.verdict)
	m.topUp(q.now)
}

// keepTry takes over the relay that was tried, and gives back what it gave up.
func (q *acquisition) keepTry(m *member) {
	m.Value.out--
	m.Value.relay = m.after
	m.giveBack(q.now, partOf(m.back))
}

// settle applies only what an ask reports: another one of the group is denied.
func (q *acquisition) settle(m *member, a *engine.Ask, i int) {
	reported := reportOf(a)
	if m.Entry != nil {
		m.Value.out--
	}
	if m.Entry == nil || m.exact {
		if q.grants[i] = nothing(a); m.exact {
			q.grants[i] = m.Value.exact.remembered(q.now, a)
		}
		if !reported.Peeks() {
			q.pass(&reported, i)
		}
		return
	}
	m.grant, m.verdict, m.back = m.Value.relay.Acquire(&m.Policy.Terms, q.now, reported.Want)
	m.giveBack(q.now, partOf(m.back))
	q.grants[i] = m.grant
	q.answered(m.verdict)
}

// nothing is the grant of an ask for which nothing was charged.
func nothing(a *engine.Ask) lease.Grant {
	return lease.Grant{Status: lease.OK, Limit: a.Policy.Terms.Capacity}
}

// reportOf is an ask without what it asks for. It is a peek if it reports nothing either.
func reportOf(a *engine.Ask) engine.Ask {
	r := *a
	r.Group = 0
	r.Want.Need, r.Want.Waiting, r.Want.Want = 0, 0, 0
	return r
}

// queue lets a member wait in the queue of its key, if its key has an entry. What it
// settled stays. Where others of its group have to be asked for afterwards, it waits
// for half of the time.
func (q *acquisition) queue(g *group, m *member, a *engine.Ask, i int) {
	if m.Entry == nil {
		return
	}
	q.keepTry(m)
	by := atEnd
	if !g.sent {
		by = atHalf
	}
	switch {
	case m.joint:
	case m.exact:
		q.exactly(m.key, a, i, by)
	case m.peek:
		q.peek(m.key, a, i)
	default:
		q.wait(m.key, a, i, by)
	}
}
