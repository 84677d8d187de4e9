package leasecache

import (
	"context"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// Acquire answers from memory what it can and asks the store for the rest, all at once. It
// returns by the deadline of ctx.
func (s *Store) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	now := s.config.Now()
	q := acquisition{store: s, ctx: ctx, now: now, grants: grants}
	all := asks
	asks = q.takeDebts(all)
	for i := 0; i < len(asks); {
		n := engine.GroupLen(asks[i:])
		switch {
		case n > 1:
			q.group(asks[i:i+n], i)
		case asks[i].Op.Operates():
			q.pass(&asks[i], i)
		case asks[i].Policy.Limit.Concurrent():
			q.slots(&asks[i], i)
		case asks[i].Peeks() && owes(all[i]):
		default:
			q.one(&asks[i], i)
		}
		i += n
	}
	q.finish()
	if len(q.groups) > 0 {
		q.undoDenied()
	}
	if len(q.grants) > len(all) {
		q.answerDebts(all, asks, grants)
	}
	s.leased.Add(q.leased)
	s.denied.Add(q.denied)
	s.failed.Add(q.failed)
}

// acquisition is one call of Acquire under way.
type acquisition struct {
	store  *Store
	ctx    context.Context
	now    lease.Millis
	grants []lease.Grant // of the asks and, if there are any, of their debts

	leased, denied, failed uint64   // answered from memory
	answers                *answers // what it waits for; nil: nothing
	batch                  *batch   // nil: nothing is to be asked
	groups                 []group  // that are not rejected from memory
}

// one decides on an ask that is alone, or lets it wait.
func (q *acquisition) one(a *engine.Ask, i int) {
	k := q.store.lock(a)
	defer k.shard.Unlock()
	if !k.findOrAdd(q.now, a) {
		q.overCapacity(a, i)
		return
	}
	switch {
	case k.passes(q.now, a.Policy):
		q.passOn(k, a, i)
	case a.Peeks():
		q.peek(k, a, i)
	default:
		q.cut(k, a, i)
	}
}

// cut answers an ask from the leases of its key, or from its denial. Else it waits.
func (q *acquisition) cut(k key, a *engine.Ask, i int) {
	var verdict holder.Verdict
	var back holder.Part
	q.grants[i], verdict, back = k.Value.relay.Acquire(&a.Policy.Terms, q.now, a.Want)
	k.giveBack(q.now, back)
	k.settle(q.now, &a.Want)
	if verdict == holder.Wait {
		q.wait(k, a, i)
		return
	}
	q.answered(verdict)
	k.topUp(q.now)
}

// peek answers an ask that only reads what is left, from memory if it can. Else it
// waits for the reply to an ask that is yet to be sent, as all do that come during a round
// trip.
func (q *acquisition) peek(k key, a *engine.Ask, i int) {
	g, ok := k.peeked(q.now, &a.Policy.Terms)
	switch {
	case ok:
		q.grants[i] = g
		q.answered(holder.Admit)
	case q.now < k.Value.pause:
		q.unavailable(i)
	default:
		q.wait(k, a, i)
	}
}

// peeked is what a peek reads by the last reply. That is an answer for a lease interval, unless
// its window is over, and for as long as the store does not answer. For an exact rule the only
// answer is that nothing is left, for as long as the rule rejects requests.
func (k key) peeked(now lease.Millis, t *lease.Terms) (lease.Grant, bool) {
	v := &k.Value
	g, _, _ := v.relay.Acquire(t, now, lease.Want{})
	over := t.Window > 0 && g.Reset == 0 && g.Remaining < t.Capacity
	recent := now < v.replied+t.Interval && !over
	switch {
	case v.replied == 0:
		return g, false
	case t.Consistency == lease.Exact:
		return g, g.Remaining == 0 && g.Reset > 0 && (recent || k.rejectsOne(now, t))
	}
	return g, recent || now < v.pause
}

// rejectsOne reports whether a request of one unit would be rejected from memory.
func (k key) rejectsOne(now lease.Millis, t *lease.Terms) bool {
	relay := k.Value.relay
	_, verdict, _ := relay.Acquire(t, now, lease.Want{Need: 1, Waiting: 1, Want: 1})
	return verdict == holder.Reject
}

// slots decides on an ask for slots of a Concurrency limit. Slots are never on lease in the cache:
// an ask goes to the store, but a denied request is remembered as that of an exact rule. Statements
// of holders always go to the store, because they are what keeps their slots.
func (q *acquisition) slots(a *engine.Ask, i int) {
	if a.Op != engine.Take {
		q.pass(a, i)
		return
	}
	k := q.store.lock(a)
	defer k.shard.Unlock()
	switch {
	case !k.findOrAdd(q.now, a):
		q.pass(a, i)
	case q.now < k.Value.pause:
		q.unavailable(i)
	default:
		var verdict holder.Verdict
		if q.grants[i], verdict, _ = k.Value.relay.Acquire(slotTerms(a), q.now, a.Want); verdict == holder.Reject {
			q.answered(verdict)
			return
		}
		q.asking().take(q.now, k, a, waiter{answers: q.await(i), at: i})
	}
}

// slotTerms are those by which a denial of slots is remembered.
func slotTerms(a *engine.Ask) *lease.Terms {
	t := a.Policy.Terms
	t.Consistency = lease.Exact
	return &t
}

// overCapacity passes on an ask for a key that the cache has no room for. A caller that
// only gives units back does not wait for that.
func (q *acquisition) overCapacity(a *engine.Ask, i int) {
	w := &a.Want
	if w.Want > 0 || w.Unused+w.Settled == 0 {
		q.pass(a, i)
		return
	}
	q.store.askSoon(engine.Ask{Policy: a.Policy, Key: a.Key, Want: lease.Want{Unused: w.Unused, Settled: w.Settled, Lease: w.Lease}})
	q.grants[i] = nothing(a)
}

// nothing is the grant of an ask for which nothing was charged.
func nothing(a *engine.Ask) lease.Grant {
	return lease.Grant{Status: lease.OK, Limit: a.Policy.Terms.Capacity}
}

// answered counts an answer from memory.
func (q *acquisition) answered(v holder.Verdict) {
	if v == holder.Reject {
		q.denied++
	} else {
		q.leased++
	}
}

func (q *acquisition) unavailable(i int) {
	q.grants[i] = lease.Grant{Status: lease.Unavailable}
	q.failed++
}

// pass sends an ask to the store as it is.
func (q *acquisition) pass(a *engine.Ask, i int) {
	q.store.waited.Add(uint64(a.Want.Waiting))
	q.asking().pass(a, waiter{answers: q.await(i), at: i})
}

// finish asks the store, waits for what is still missing, and leaves the rest
// unavailable.
func (q *acquisition) finish() {
	q.send()
	if q.answers != nil {
		q.answers.wait(q.ctx)
		q.answers = nil
	}
}
