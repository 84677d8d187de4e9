package leasecache

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/lease"
)

// sendJoint sends those asks of a group on which the store decides, in one group. Their
// shards are locked.
func (q *acquisition) sendJoint(g *group) {
	g.sent = true
	for i := range g.members {
		m, a := &g.members[i], &g.asks[i]
		switch {
		case !m.joint || m.verdict != lease.Wait:
		case m.Entry == nil:
			q.pass(a, g.at+i)
		case q.now < m.Value.pause:
			q.unavailable(g.at + i)
		default:
			w := waiter{want: onlyAsk(a.Want), answers: q.await(g.at+i, atEnd), at: g.at + i}
			q.asking().ask(q.now, m.key, []waiter{w}, lease.NoAsk, a.Group)
		}
	}
}

// awaitHalf waits until the queued asks of groups are answered, or half of the time is
// over, and asks for the joint ones.
func (q *acquisition) awaitHalf(ctx context.Context) {
	half, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	q.answers[atHalf].wait(half)
	cancel()
	for _, g := range q.groups {
		if !g.sent && !q.deniedIn(g) {
			q.sendRest(g)
		}
	}
}

// sendRest sends the joint asks of a group. Their entries may have been evicted meanwhile.
func (q *acquisition) sendRest(g *group) {
	unlock := g.lock()
	defer unlock()
	q.now = q.store.now()
	for i := range g.members {
		if m := &g.members[i]; m.joint && m.Entry != nil && m.findOrAdd(q.now, &g.asks[i]) {
			m.Value.out++ // not to be evicted for another of the group
		}
	}
	for i := range g.members {
		if m := &g.members[i]; m.joint && m.Entry != nil {
			m.Value.out--
		}
	}
	q.sendJoint(g)
}

// undoDenied takes back what groups were granted of which a member was denied.
func (q *acquisition) undoDenied(ctx context.Context) {
	for _, g := range q.groups {
		if q.deniedIn(g) {
			q.undo(g)
		}
	}
	q.finish(ctx)
}

// deniedIn reports whether a member of a group was denied.
func (q *acquisition) deniedIn(g *group) bool {
	for _, grant := range q.grants[g.at : g.at+len(g.asks)] {
		if grant.Status == lease.Denied {
			return true
		}
	}
	return false
}

// undo takes back what the members of a denied group were granted. Joint asks that were
// not sent are reported without what they ask for. What the store answered a holder of
// slots is what that uses, and stays.
func (q *acquisition) undo(g *group) {
	for i := range g.asks {
		a, grant := &g.asks[i], &q.grants[g.at+i]
		switch m := &g.members[i]; {
		case m.joint && m.verdict == lease.Wait && !g.sent:
			*grant = nothing(a)
			if r := reportOf(a); m.Entry == nil && !r.Peeks() {
				q.pass(&r, g.at+i)
			}
		case m.exact && grant.Granted > 0:
			back, kept := a.GiveBack(grant), grant.Keep(0)
			q.one(&back, g.at+i)
			*grant = kept
		case a.Holder == 0 && grant.Status == lease.OK && grant.Granted > 0:
			q.store.takeBackFor(a, *grant)
			*grant = grant.Keep(0)
		}
	}
}
