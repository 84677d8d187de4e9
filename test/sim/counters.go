package sim

import (
	"cmp"
	"context"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// counters are the store of the topmost tier, with the referee looking at it. They run in the
// run's own goroutine only.
type counters struct {
	w     *World
	store engine.Store    // the memory, or what is over it, or broken on purpose round it
	items []item          // of the call that runs
	debts map[debtID]bool // that were reported
}

// debtID names a debt as a store recognizes it.
type debtID struct {
	key  counterKey
	debt uint64
}

// reset begins a life without the counters of the one before.
func (s *counters) reset() {
	s.w.world.LoseCounters()
	s.debts = map[debtID]bool{}
}

func (s *counters) clock() limit.Micros {
	_, now := s.w.world.Counters()
	return now
}

// Acquire asks the store. What that makes of debts cannot be seen in its answers: it shows in
// what is left of the limit.
func (s *counters) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	ref := s.w.ref
	memory, _ := s.w.world.Counters()
	ref.checkMemory("region", memory.Stats().Keys, cmp.Or(s.w.MaxCounters, 1<<20))
	before := s.audit(asks)
	s.items = s.items[:0]
	for i := range asks {
		s.items = append(s.items, itemOf(&asks[i]))
	}
	s.store.Acquire(ctx, asks, grants)
	for i := range s.items {
		it := &s.items[i]
		it.grant = grants[i]
		ref.settled(it)
		if !it.slots {
			ref.granted(it)
			s.stamp(asks[i].Policy.Limit, it)
		}
	}
	for key, left := range before {
		s.audited(key, left, asks, grants)
	}
}

// audit is what is left of the counters of which an ask reports a debt.
func (s *counters) audit(asks []engine.Ask) map[counterKey]int64 {
	before := map[counterKey]int64{}
	for i := range asks {
		if a := &asks[i]; a.Want.Overdrawn > 0 {
			before[keyOf(a)] = s.peek(a.Policy, string(a.Key))
		}
	}
	return before
}

// audited compares it with what is left afterwards.
func (s *counters) audited(key counterKey, left int64, asks []engine.Ask, grants []lease.Grant) {
	for i := range asks {
		if a := &asks[i]; keyOf(a) == key {
			left -= grants[i].Granted
		}
	}
	r := s.w.rules.find(key.rule)
	charged := left - s.left(r, key.key)
	withheld := len(s.w.regions) > 0 && r.Spec.Algorithm == limit.TokenBucket // what is withheld leaves a bucket, too
	if !withheld {
		s.w.ref.charged(key, charged)
	}
}

// stamp notes the bounds of a grant.
func (s *counters) stamp(l *limit.Limit, it *item) {
	if it.grant.Granted == 0 {
		return
	}
	now := s.w.now()
	stamp := stamp{charged: now, from: now, until: now + limit.Micros(it.grant.TTL)*limit.Millisecond}
	if inWindows(l) {
		start := l.PeriodFromID(s.clock(), it.grant.Lease) - (s.clock() - s.w.Now())
		stamp.until = min(stamp.until, start+l.Spec().Period+limit.Millisecond-1) // a lease has its window to the millisecond
		if it.grant.StartsIn > 0 {
			stamp.from = start
		}
	}
	s.w.life(s.w.region().Life).stamps[it.granted().leaseID] = stamp
}

func (s *counters) peek(p *engine.Policy, key string) int64 {
	grants := make([]lease.Grant, 1)
	memory, _ := s.w.world.Counters()
	memory.Acquire(context.Background(), []engine.Ask{{Policy: p, Key: []byte(key)}}, grants)
	return grants[0].Remaining
}

func (s *counters) left(r *Rule, key string) int64 {
	return s.peek(s.w.region().Service.Policy(r.Name, 0, nil), key)
}
