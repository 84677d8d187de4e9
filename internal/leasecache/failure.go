package leasecache

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

var _ engine.Fallback = (*Store)(nil)

// Fall decides on an ask that the store did not answer, see [holder.State.Fail]. What is
// admitted so is reported to the store when it answers again: at most one limit.
//
// A key that the cache cannot count, because it is one of a Concurrency limit or because
// no other key can be evicted for it, is decided by on_failure alone.
func (s *Store) Fall(a *engine.Ask, holders int) engine.Judgment {
	p, t := a.Policy, &a.Policy.Terms
	spec := p.Limit.Spec()
	if spec.Algorithm == limit.Concurrency {
		return p.Failed(p.OnFailure.FailUncounted())
	}
	k := s.lock(a)
	defer k.shard.Unlock()
	now := s.config.Now()
	f := p.OnFailure.Among(holders, p.ExpectedPoPs, spec, now, s.config.Wall())
	if !k.findOrAdd(now, a) {
		return p.Failed(p.OnFailure.FailUncounted())
	}
	account := &k.Value.relay.Holder
	if x := k.Value.passing; x.noFit(now, a) {
		return p.Failed(lease.Failed{Denied: true, Reset: x.reset - now, RetryAfter: x.reset - now})
	}
	if a.Peeks() {
		return p.Failed(account.FailPeek(t, now, f))
	}
	return p.Failed(account.Fail(t, now, f, a.Want.Need))
}

// Refund takes back what Fall admitted.
func (s *Store) Refund(a *engine.Ask, j *engine.Judgment) {
	s.withEntry(a, func(k key) {
		k.Value.relay.Holder.Refund(&k.Policy.Terms, holder.Taken{Overdrawn: a.Want.Need, Unowed: j.Unowed, Local: j.Degraded == engine.FailedLocal})
	})
}

// Owe adds units to what is reported to the store of a key: they were admitted without it. If the cache has no room
// for the key, they are not reported.
func (s *Store) Owe(a *engine.Ask, units int64) {
	k := s.lock(a)
	defer k.shard.Unlock()
	if k.findOrAdd(s.config.Now(), a) {
		k.Value.relay.Holder.Owe(&k.Policy.Terms, units)
	}
}

// owed is a debt of a caller on its way to the store: units that it admitted without a
// lease. The cache neither adds debts up nor pays them from its own leases: the caller
// repeats a debt until it is acknowledged, and only the store can distinguish a repetition from
// another debt.
type owed struct {
	ask     engine.Ask // the debt alone; its key is the caller's
	at      int        // index of the want's grant
	answers *answers
	grant   int                         // at, if the want reports nothing else: the store's grant is the answer; else noGrant
	above   atomic.Pointer[lease.Grant] // the store's answer, if it has taken the debt
}

// takeDebts takes the debts out of asks and passes each on to the store, in an ask of its
// own that asks for nothing. The others are decided as if there were none. What it
// returns is a copy where there are debts: asks are the caller's.
func (q *acquisition) takeDebts(asks []engine.Ask) []engine.Ask {
	if !slices.ContainsFunc(asks, owes) {
		return asks
	}
	rest := slices.Clone(asks)
	for i := range rest {
		a := &rest[i]
		if !owes(*a) {
			continue
		}
		debt := engine.Ask{Policy: a.Policy, Key: a.Key, Want: lease.Want{Overdrawn: a.Want.Overdrawn, Debt: a.Want.Debt}}
		a.Want.Overdrawn, a.Want.Debt = 0, 0
		o := &owed{ask: debt, at: i, grant: noGrant}
		if q.owed = append(q.owed, o); a.Group == 0 && a.Peeks() {
			o.grant = i
		}
		if q.store.pauses(q.now, &debt) {
			if o.grant != noGrant {
				q.unavailable(i)
			}
			continue
		}
		o.answers = q.await(o.grant)
		debt.Key = bytes.Clone(a.Key) // the caller may leave before it is sent
		q.asking().put(debt, pending{key: key{store: q.store}, owed: o})
	}
	return rest
}

func owes(a engine.Ask) bool {
	return a.Want.Overdrawn > 0 && !a.Policy.Limit.Concurrent()
}

// onlyOwes reports whether grant i is the answer to a debt, or was given already.
func (q *acquisition) onlyOwes(a *engine.Ask, i int) bool {
	if q.owed == nil || !a.Peeks() {
		return false
	}
	return slices.ContainsFunc(q.owed, func(o *owed) bool { return o.grant == i })
}

// reply takes the store's answer to a debt. The key learns from it, too.
func (o *owed) reply(now lease.Millis, s *Store, a *engine.Ask, g lease.Grant) {
	s.withEntry(a, func(k key) {
		k.Value.noteReply(now, g.Status, s.config.Jitter)
		k.Value.relay.DebtReplied(&a.Policy.Terms, now, g)
	})
	if decided(g) {
		o.above.Store(&g)
	}
	o.answers.answer(o.grant, g)
}

// answerDebts puts into the grants of wants what became of their debts.
func (q *acquisition) answerDebts() {
	for _, o := range q.owed {
		if g, above := &q.grants[o.at], o.above.Load(); above != nil {
			*g = o.ask.Policy.Terms.AfterDebt(*g, *above)
		} else {
			g.StillOwed = true
		}
	}
}

// takeBackFor settles a grant on an ask whose request was denied.
func (s *Store) takeBackFor(a *engine.Ask, g lease.Grant) {
	taken := false
	s.withEntry(a, func(k key) {
		if taken = !k.Policy.Terms.Lies(g.Granted); taken { // else only the limit of the request is so large
			k.takeBack(s.config.Now(), g)
		}
	})
	if !taken {
		s.due.addAsk(a.GiveBack(&g))
	}
}

// pauses reports whether the store is not to be asked for a key.
func (s *Store) pauses(now lease.Millis, a *engine.Ask) (pauses bool) {
	s.withEntry(a, func(k key) { pauses = now < k.Value.pause })
	return pauses
}
