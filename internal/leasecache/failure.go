package leasecache

import (
	"slices"

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

// takeDebts takes the debts out of asks and passes each on to the store, in an ask of its own that asks for nothing. The
// cache neither adds debts up nor pays them from its own leases: the caller repeats a debt until it is acknowledged, and
// only the store can distinguish a repetition from another debt. It returns a copy where there are debts, and then the
// grants of the debts follow those of the asks: both are the caller's.
func (q *acquisition) takeDebts(asks []engine.Ask) []engine.Ask {
	if !slices.ContainsFunc(asks, owes) {
		return asks
	}
	q.grants = make([]lease.Grant, 2*len(asks))
	rest := slices.Clone(asks)
	for i := range rest {
		a := &rest[i]
		if !owes(*a) {
			continue
		}
		debt := engine.Ask{Policy: a.Policy, Key: a.Key, Want: lease.Want{Overdrawn: a.Want.Overdrawn, Debt: a.Want.Debt}}
		a.Want.Overdrawn, a.Want.Debt = 0, 0
		pauses := false
		q.store.withEntry(a, func(k key) { pauses = q.now < k.Value.pause })
		switch at := len(asks) + i; {
		case !pauses:
			q.pass(&debt, at)
		case a.Peeks():
			q.unavailable(at)
		}
	}
	return rest
}

func owes(a engine.Ask) bool {
	return a.Want.Overdrawn > 0 && !a.Policy.Limit.Concurrent()
}

// answerDebts answers asks of which rest are those without the debts. Of one that reported nothing else, the answer to the
// debt is the answer.
func (q *acquisition) answerDebts(asks, rest []engine.Ask, grants []lease.Grant) {
	for i := range asks {
		g, debt := q.grants[i], q.grants[len(asks)+i]
		if owes(asks[i]) {
			if rest[i].Peeks() {
				g = debt
			}
			g.StillOwed = !decided(debt)
			if decided(debt) {
				g = asks[i].Policy.Terms.AfterDebt(g, debt)
			}
		}
		grants[i] = g
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
		s.askSoon(a.GiveBack(&g))
	}
}
