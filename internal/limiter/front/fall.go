package front

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

var _ limiter.Fallback = (*Store)(nil)

// Fall decides on an ask that the store did not answer: what was denied before stays
// denied until its counter is as good as new; else the policy's on_failure decides.
// What is admitted so is reported to the store when it answers again: at most one
// limit.
//
// A key of which nothing can be remembered, because it is one of a Concurrency limit
// or because all others owe for what was admitted so, is not counted: allow admits,
// deny and local refuse. What was denied stays denied also then.
func (s *Store) Fall(a *limiter.Ask, holders int) limiter.Judgment {
	v := limiter.OnFailure(a.Policy)
	if a.Policy.Limit.Spec().Algorithm == limit.Concurrency {
		return v
	}
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	now := s.now()
	e := s.find(shard, hash, now, a)
	if e == nil {
		if d := s.denials[shard.Number()].find(now, hash); d != nil && a.Policy.Beside == nil && max(a.Want.Need, 1) >= int64(d.need) {
			return stayDenied(v, d.until-now)
		}
		if e = s.add(shard, hash, now, a); e == nil {
			return v
		}
	}
	slot := &e.Value.node.Account
	told := slot
	if visits(e, a.Policy) {
		told = &e.Value.guest(now, a.Policy).node.Account
	}
	if a.Peeks() {
		return s.fallPeek(a, v, told, now, holders)
	}
	owed := slot.Overdrawn
	v.Grant.Reset = max(0, slot.Reset-now)
	switch {
	case told.Remembered(now, a.Want.Need):
		return stayDenied(v, max(0, told.Reset-now))
	case a.Policy.OnFailure == lease.FailureAllow:
		slot.Overdraw(&a.Policy.Terms, a.Want.Need)
	case a.Policy.OnFailure == lease.FailureLocal:
		ends := s.windowEnd(now, a.Policy.Limit.Spec())
		v.Admitted = slot.TakeLocal(&a.Policy.Terms, now, ends, localShare(a.Policy, holders), a.Want.Need)
		v.Grant.Reset = ends - now
		if !v.Admitted {
			v.Grant.RetryAfter = v.Grant.Reset
		}
	}
	v.Refused = !v.Admitted
	v.Unowed = a.Want.Need - (slot.Overdrawn - owed)
	return v
}

// fallPeek answers a question: as [Store.Fall] decides on one unit.
func (s *Store) fallPeek(a *limiter.Ask, v limiter.Judgment, slot *lease.Account, now lease.Millis, holders int) limiter.Judgment {
	v.Grant.Reset = max(0, slot.Reset-now)
	switch {
	case slot.Remembered(now, 1):
		return stayDenied(v, v.Grant.Reset)
	case a.Policy.OnFailure == lease.FailureLocal:
		ends := s.windowEnd(now, a.Policy.Limit.Spec())
		as := *slot
		v.Admitted = as.TakeLocal(&a.Policy.Terms, now, ends, localShare(a.Policy, holders), 1)
		v.Grant.Reset = ends - now
	}
	v.Refused = !v.Admitted
	return v
}

// stayDenied refuses what was denied before, until its counter is as good as new.
func stayDenied(v limiter.Judgment, reset lease.Millis) limiter.Judgment {
	v.Degraded, v.Admitted, v.Refused = limiter.FailedDenied, false, true
	v.Grant.Reset, v.Grant.RetryAfter = reset, reset
	return v
}

// Untake takes back what Fall admitted.
func (s *Store) Untake(a *limiter.Ask, v *limiter.Judgment) {
	s.withEntry(a, func(_ *table.Shard[cached], e *table.Entry[cached]) {
		e.Value.node.Account.Untake(&e.Policy.Terms, lease.Taken{Overdrawn: a.Want.Need, Unowed: v.Unowed, Local: v.Degraded == limiter.FailedLocal})
	})
}

// withEntry does something with the entry of an ask, if there is one.
func (s *Store) withEntry(a *limiter.Ask, do func(*table.Shard[cached], *table.Entry[cached])) bool {
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	e := shard.Find(hash, a.Policy, a.Key)
	if e == nil {
		return false
	}
	do(shard, e)
	return true
}

// localShare is what this replica enforces on its own of a limit.
func localShare(p *limiter.Policy, holders int) int64 {
	return lease.Share(p.Limit.Spec().Count, holders, p.ExpectedHolders)
}

// windowEnd is when the share of a limit is renewed: at the end of the window of
// its period by the time of day, whatever its algorithm.
func (s *Store) windowEnd(now lease.Millis, l limit.Spec) lease.Millis {
	return now + lease.CeilMillis(l.Period-s.wall()%l.Period)
}
