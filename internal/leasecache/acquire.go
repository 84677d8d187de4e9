package leasecache

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Acquire answers from memory what it can and asks the store for the rest. All asks of
// the call go to the store at once, with one exception: of a group with leased and exact
// rules, the exact ones are asked for when the leased ones are decided, or half of the
// time is over. Acquire returns by the deadline of ctx.
func (s *Store) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	now := s.now()
	q := acquisition{store: s, ctx: ctx, now: now, grants: grants, ends: forever}
	if deadline, ok := ctx.Deadline(); ok {
		q.ends = now + lease.Millis(time.Until(deadline).Milliseconds())
	}
	asks = q.takeDebts(asks)
	for i := 0; i < len(asks); {
		n := engine.GroupLen(asks[i:])
		switch {
		case n > 1:
			q.group(asks[i:i+n], i)
		case asks[i].Policy.Limit.Spec().Algorithm == limit.Concurrency:
			q.slots(&asks[i], i)
		case n == 1 && q.onlyOwes(&asks[i], i):
		default:
			q.one(&asks[i], i)
		}
		i += n
	}
	if q.answers[atHalf] != nil {
		q.send(ctx)
		q.awaitHalf(ctx)
	}
	q.finish(ctx)
	if len(q.groups) > 0 {
		q.undoDenied(ctx)
	}
	q.answerDebts()
	s.leased.Add(q.leased)
	s.denied.Add(q.denied)
	s.failed.Add(q.failed)
}

// forever is the deadline of a caller that has none.
const forever = lease.Never

// acquisition is one call of Acquire under way.
type acquisition struct {
	store  *Store
	ctx    context.Context // for its spans
	now    lease.Millis
	ends   lease.Millis // its deadline
	grants []lease.Grant

	leased, denied, failed uint64      // answered from memory
	answers                [2]*answers // what it waits for, by stage; nil: nothing
	batch                  *batch      // nil: nothing is to be asked
	groups                 []*group    // that wait
	owed                   []*owed     // debts that were passed on
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
	case k.isExact(q.now, a.Policy):
		q.exactly(k, a, i, atEnd)
	case a.Peeks():
		q.peek(k, a, i)
	default:
		q.cut(k, a, i)
	}
}

// cut answers an ask from the leases of its key, or from its denial. Else it waits.
func (q *acquisition) cut(k key, a *engine.Ask, i int) {
	var verdict lease.Verdict
	var back lease.Part
	q.grants[i], verdict, back = k.Value.relay.Acquire(&a.Policy.Terms, q.now, a.Want)
	k.giveBack(q.now, partOf(back))
	if verdict == lease.Wait {
		q.wait(k, a, i, atEnd)
		return
	}
	q.answered(verdict)
	k.topUp(q.now)
}

// overCapacity passes on an ask for a key that the cache has no room for. A caller that
// only gives units back does not wait for that.
func (q *acquisition) overCapacity(a *engine.Ask, i int) {
	w := &a.Want
	if w.Want > 0 || w.Unused == 0 {
		q.pass(a, i)
		return
	}
	q.store.due.addAsk(engine.Ask{Policy: a.Policy, Key: a.Key, Want: lease.Want{Unused: w.Unused, Lease: w.Lease}})
	q.grants[i] = lease.Grant{Status: lease.OK, Limit: a.Policy.Terms.Capacity}
}

// answered counts an answer from memory.
func (q *acquisition) answered(v lease.Verdict) {
	if v == lease.Refuse {
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
	q.asking().pass(a, waiter{answers: q.await(i, atEnd), at: i})
}

// finish asks the store, waits for what is still missing, and leaves the rest
// unavailable.
func (q *acquisition) finish(ctx context.Context) {
	q.send(ctx)
	if q.answers[atEnd] != nil {
		q.answers[atEnd].wait(ctx)
		q.answers[atEnd] = nil
	}
}
