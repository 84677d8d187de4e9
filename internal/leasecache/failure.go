package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

var _ engine.Fallback = (*Store)(nil)

// Fall decides on an ask that the store did not answer, see [lease.Account.Fail]. What is
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
	now := s.now()
	f := p.OnFailure.Among(holders, p.ExpectedHolders, spec, now, s.wall())
	if !k.findOrAdd(now, a) {
		return p.Failed(p.OnFailure.FailUncounted())
	}
	account := &k.Value.relay.Account
	if x := k.Value.exact; x.full(now, a) {
		return p.Failed(lease.Failed{Denied: true, Reset: x.reset - now, RetryAfter: x.reset - now})
	}
	if a.Peeks() {
		return p.Failed(account.FailPeek(t, now, f))
	}
	return p.Failed(account.Fail(t, now, f, a.Want.Need))
}

// Untake takes back what Fall admitted.
func (s *Store) Untake(a *engine.Ask, j *engine.Judgment) {
	s.withEntry(a, func(k key) {
		k.Value.relay.Account.Untake(&k.Policy.Terms, lease.Taken{Overdrawn: a.Want.Need, Unowed: j.Unowed, Local: j.Degraded == engine.FailedLocal})
	})
}

// Owe adds units to what is reported to the store of a key: they were admitted without it. If the cache has no room
// for the key, they are not reported.
func (s *Store) Owe(a *engine.Ask, units int64) {
	k := s.lock(a)
	defer k.shard.Unlock()
	if k.findOrAdd(s.now(), a) {
		k.Value.relay.Account.Owe(&k.Policy.Terms, units)
	}
}
