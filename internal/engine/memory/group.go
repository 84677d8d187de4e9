package memory

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/rounds"
	"github.com/weirlimit/weir/internal/limit"
)

// member is one ask of a group.
type member struct {
	rounds.Member
	ask   engine.Ask // without what has been reported before
	shard *table.Shard[value]
	hash  uint64
	entry *table.Entry[value] // nil: there is no room
}

// usualGroup is how many asks a group may have without allocating for it.
const usualGroup = 8

// group decides on the asks of one request, all or none, while the shards of all of them
// are locked. So nobody is faster between two rounds, and nothing has to be given back.
func (s *Store) group(now limit.Micros, asks []engine.Ask, grants []lease.Grant) {
	var memberBuf [usualGroup]member
	var lockBuf [usualGroup]*table.Shard[value]
	members, shards := memberBuf[:0], lockBuf[:0]
	var group rounds.Group
	for i := range asks {
		hash := s.table.Hash(asks[i].Policy, asks[i].Key)
		m := member{shard: s.table.Shard(hash), hash: hash}
		group.Join(&m.Member)
		members, shards = append(members, m), append(shards, m.shard)
	}
	shards = table.LockAll(shards)
	defer table.UnlockAll(shards)

	for i := range members {
		m := &members[i]
		g, fits := s.fit(now, m, &asks[i])
		group.Reply(&m.Member, &m.ask.Want, g, fits)
	}
	for group.Turn() {
		for i := range members {
			if m := &members[i]; group.Asks(&m.Member, &m.ask.Want) {
				group.Reply(&m.Member, &m.ask.Want, m.entry.Value.acquire(now, &m.ask), false)
			}
		}
	}
	for i := range members {
		m := &members[i]
		if grants[i] = m.Grant; m.entry != nil {
			m.entry.Value.release(m.shard)
		}
	}
}

// fit asks the counter of a member whether the need of its ask fits.
func (s *Store) fit(now limit.Micros, m *member, a *engine.Ask) (g lease.Grant, fits bool) {
	if m.entry = s.entry(m.shard, m.hash, now, a); m.entry == nil {
		return lease.Grant{Status: lease.Unavailable}, false
	}
	m.ask = s.counted(now, a)
	l, t, v := a.Policy.Limit, &a.Policy.Terms, &m.entry.Value
	if v.slots != nil {
		return v.slots.Fit(l, t, now, a.Holder, a.Seq, m.ask.Want)
	}
	return v.counter.Fit(l, t, now, m.ask.Want)
}
