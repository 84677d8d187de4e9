package memory

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// member is one ask of a group.
type member struct {
	shard *table.Shard[value]
	hash  uint64
	entry *table.Entry[value] // nil: there is no room, or the statement is too old
	fits  bool                // its need can be granted
}

// usualGroup is how many asks a group may have without allocating for it.
const usualGroup = 8

// group decides on the asks of one request, all or none, while the shards of all of them
// are locked: it settles each, checks whether every need fits, then charges.
func (s *Store) group(now limit.Micros, asks []limiter.Ask, grants []lease.Grant) {
	var memberBuf [usualGroup]member
	var lockBuf [usualGroup]*table.Shard[value]
	members, shards := memberBuf[:0], lockBuf[:0]
	for i := range asks {
		hash := s.table.Hash(asks[i].Policy, asks[i].Key)
		m := member{shard: s.table.Shard(hash), hash: hash}
		members, shards = append(members, m), append(shards, m.shard)
	}
	shards = lockAll(shards)
	defer unlockAll(shards)

	allFit := true
	for i := range members {
		m := &members[i]
		if m.entry = s.entry(m.shard, m.hash, now, &asks[i]); m.entry == nil {
			continue
		}
		var counts bool
		counted := s.counted(now, &asks[i])
		if m.fits, counts = m.entry.Value.settle(now, &counted); counts {
			allFit = allFit && m.fits
		} else {
			m.release()
		}
	}
	for i := range members {
		grants[i] = members[i].decide(now, asks[i], allFit)
	}
}

// decide answers a member: with all or nothing of what it asks for.
func (m *member) decide(now limit.Micros, a limiter.Ask, allFit bool) lease.Grant {
	if m.entry == nil {
		return lease.Grant{Status: lease.Unavailable}
	}
	defer m.release()
	w := lease.Want{} // a need that fits is not charged if another's does not
	if allFit || !m.fits {
		w = a.Want.Asks()
	}
	a.Want = w
	return m.entry.Value.charge(now, &a)
}

func (m *member) release() {
	m.entry.Value.release(m.shard)
	m.entry = nil
}

// settle applies what the ask gives back and reports. It returns whether the need
// fits, and whether the ask counts at all: a statement that is too old does not.
func (v *value) settle(now limit.Micros, a *limiter.Ask) (fits, counts bool) {
	if v.slots != nil {
		return v.slots.Fit(a.Policy.Limit, now, a.SlotWant())
	}
	return v.counter.Fit(a.Policy.Limit, &a.Policy.Terms, now, a.Want), true
}

// charge decides on an ask that has been settled.
func (v *value) charge(now limit.Micros, a *limiter.Ask) lease.Grant {
	if v.slots != nil {
		return v.slots.Charge(a.Policy.Limit, &a.Policy.Terms, now, a.SlotWant())
	}
	return v.counter.Acquire(a.Policy.Limit, &a.Policy.Terms, now, a.Want)
}

// lockAll locks each of the shards once, in the order in which all callers do, and returns
// them.
func lockAll(shards []*table.Shard[value]) []*table.Shard[value] {
	slices.SortFunc(shards, func(a, b *table.Shard[value]) int { return a.Number() - b.Number() })
	shards = slices.Compact(shards)
	for _, s := range shards {
		s.Lock()
	}
	return shards
}

func unlockAll(shards []*table.Shard[value]) {
	for _, s := range shards {
		s.Unlock()
	}
}
