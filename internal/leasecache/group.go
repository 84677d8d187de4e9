package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// group is the asks of one request: all of them are granted, or none.
type group struct {
	asks []engine.Ask
	at   int // index of the first grant
}

// group decides on the asks of one request. If memory rejects one of them, the others settle
// what they report. Else each is asked for as if it were alone, but for those of exact rules and
// for slots: the store decides on these together. If one is denied, what the others were granted
// goes back.
func (q *acquisition) group(asks []engine.Ask, at int) {
	clear(q.grants[at : at+len(asks)]) // a denial of a call before would look like one of this group
	rejected := false
	for i := range asks {
		rejected = q.rejects(&asks[i], at+i) || rejected
	}
	if rejected {
		for i := range asks {
			if q.grants[at+i].Status != lease.Denied {
				q.settle(&asks[i], at+i)
			}
		}
		return
	}
	for i := range asks { // one after the other, so that they are a group of the store
		if q.store.decidesOn(&asks[i]) {
			q.join(&asks[i], at+i)
		}
	}
	for i := range asks {
		if !q.store.decidesOn(&asks[i]) {
			alone := asks[i]
			alone.Group = 0
			q.one(&alone, at+i)
		}
	}
	q.groups = append(q.groups, group{asks, at})
}

// rejects reports whether memory rejects an ask. It tries that on a copy of the relay, so that
// another ask changes nothing.
func (q *acquisition) rejects(a *engine.Ask, i int) bool {
	if a.Policy.Limit.Concurrent() || a.Peeks() {
		return false
	}
	k := q.store.lock(a)
	defer k.shard.Unlock()
	switch {
	case !k.find(q.now, a):
		return false
	case k.passes(q.now, a.Policy):
		return q.answerRejected(k, a, i)
	}
	relay := k.Value.relay
	g, verdict, back := relay.Acquire(&a.Policy.Terms, q.now, a.Want)
	if verdict != holder.Reject {
		return false
	}
	k.Value.relay, q.grants[i] = relay, g
	k.giveBack(q.now, back)
	k.topUp(q.now)
	q.answered(holder.Reject)
	return true
}

// settle applies only what an ask reports: another one of its group is rejected.
func (q *acquisition) settle(a *engine.Ask, i int) {
	q.grants[i] = nothing(a)
	slots, r := a.Policy.Limit.Concurrent(), reportOf(a)
	switch {
	case slots && !r.Peeks():
		q.pass(&r, i)
	case !slots && r.Peeks():
		q.store.withEntry(a, func(k key) {
			if p := k.Value.passing; p.lasts(q.now) {
				q.grants[i].Remaining, q.grants[i].Reset = p.left(q.now, &a.Policy.Terms), max(0, p.reset-q.now)
			} else {
				q.grants[i], _, _ = k.Value.relay.Acquire(&a.Policy.Terms, q.now, r.Want)
			}
		})
	case !slots:
		q.one(&r, i)
	}
}

// reportOf is an ask without what it asks for. It is a peek if it reports nothing either.
func reportOf(a *engine.Ask) engine.Ask {
	r := *a
	r.Group = 0
	r.Want.Need, r.Want.Waiting, r.Want.Want = 0, 0, 0
	return r
}

// decidesOn reports whether the store decides on an ask with others of its group.
func (s *Store) decidesOn(a *engine.Ask) bool {
	return a.Policy.Limit.Concurrent() ||
		a.Policy.Terms.Consistency == lease.Exact && !a.Policy.Brought && !a.Peeks()
}

// join puts an ask into its group of the store.
func (q *acquisition) join(a *engine.Ask, i int) {
	if a.Policy.Limit.Concurrent() {
		q.pass(a, i)
		return
	}
	k := q.store.lock(a)
	defer k.shard.Unlock()
	switch {
	case !k.findOrAdd(q.now, a):
		q.pass(a, i)
		return
	case k.passes(q.now, a.Policy):
		q.passOn(k, a, i)
		return
	}
	g, verdict, back := k.Value.relay.Acquire(&a.Policy.Terms, q.now, a.Want)
	k.giveBack(q.now, back)
	switch {
	case verdict != holder.Wait:
		q.grants[i] = g
		q.answered(verdict)
	case q.now < k.Value.pause:
		q.unavailable(i)
	default:
		w := waiter{want: onlyAsk(a.Want), answers: q.await(i), at: i}
		q.asking().ask(q.now, k, []waiter{w}, holder.NoAsk, a.Group)
	}
}

// undoDenied takes back what groups were granted of which a member was denied. A holder of slots
// keeps those that it uses, and states that.
func (q *acquisition) undoDenied() {
	for _, g := range q.groups {
		if !engine.IsDenied(g.asks, q.grants[g.at:g.at+len(g.asks)]) {
			continue
		}
		for i := range g.asks {
			a, grant := &g.asks[i], &q.grants[g.at+i]
			switch {
			case grant.Status != lease.OK || grant.Granted <= a.Want.Holding:
			case a.Holder != 0:
				back := a.GiveBack(grant)
				back.Want.Want = a.Want.Holding
				q.pass(&back, g.at+i)
			default:
				q.store.takeBackFor(a, *grant)
				*grant = grant.Keep(0)
			}
		}
	}
	q.finish()
}
