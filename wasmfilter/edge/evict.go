package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	// strandedFor is how long entries stay whose rule is gone, or has another shape:
	// rules that go and come back, as while two replicas of the region differ, find
	// their counters again.
	strandedFor lease.Millis = 10_000
	// unknownFor is how long after the last ask for a key a debt is kept that the
	// region answers with unknown_rule: a replica with other rules may have the rule.
	unknownFor lease.Millis = 30_000
)

// makeRoomIn sets how a table makes room in pages that are full: rules of the set in
// force share half of each page among them.
func (a *accounts) makeRoomIn(t *table.Table) {
	rules := 0
	for _, p := range a.rules.InForce.ByID {
		if p.Table == t && !p.Concurrency {
			rules++
		}
	}
	t.Room = table.Room{
		Rank:  a.rank,
		Merge: a.merge,
		Gone:  a.gone,
		Share: max(1, table.PageEntries/(2*max(rules, 1))),
	}
}

// rank is what it costs to forget an entry that is not idle. What the region denied
// it denies again, and it takes units back; but debts, and what the PoP counts by
// itself, are nowhere else.
func (a *accounts) rank(e *table.Entry, now lease.Millis) (r table.Rank, worth int64) {
	p := a.rules.InForce.ByID[e.Rule]
	switch {
	case p == nil:
		return table.Fixed, 0 // of rules that this worker does not have yet
	case p.Local:
		return table.Counter, p.Terms.Capacity - p.Limit.Peek(e.Counter, a.pop.TimeOfDay(now), 0).Remaining
	case e.Overdrawn > 0:
		return table.Debt, e.Overdrawn
	case e.Leases[0].Sharing(now), e.Leases[1].Sharing(now):
		return table.Share, int64(e.Asked)
	case e.Leases[0].Units > 0, e.Leases[1].Units > 0:
		return table.Lease, int64(e.Asked)
	}
	return table.Denial, int64(e.Asked)
}

// merge makes the shared counter of a rule with scope: pop refuse what e refuses, so
// that a key that spent its limit does not get another one with the place of others.
func (a *accounts) merge(shared, e *table.Entry, now lease.Millis) {
	if p := a.rules.InForce.ByID[e.Rule]; p != nil {
		shared.Counter = p.Limit.Union(shared.Counter, e.Counter, a.pop.TimeOfDay(now))
	}
}

// gone gives back what an entry held that was evicted or dropped, as far as its rule is in
// force, and counts what it owed.
func (a *accounts) gone(e *table.Entry) {
	p := a.rules.InForce.ByID[e.Rule]
	for i := range e.Leases {
		if lot := &e.Leases[i]; lot.Units > 0 && !lot.Local && p != nil && !p.Local {
			a.uplink.GiveBack(p, p.Key(a.pop.Seed, e.Key), lot.Part())
		}
	}
	a.port.Unreported += uint64(e.Overdrawn)
}

// idle reports whether an entry of the table may be forgotten: a new one would do
// the same, or it belongs to no rule in force.
func (a *accounts) idle(e *table.Entry, now lease.Millis) bool {
	if a.rules.InForce == nil {
		return false
	}
	p := a.rules.InForce.ByID[e.Rule]
	switch {
	case p == nil:
		return a.rules.Newest()
	case p.Local:
		return p.Limit.Fresh(e.Counter, a.pop.TimeOfDay(now))
	}
	return e.State.Idle(&p.Terms, now)
}

// forgotten reports whether the scan drops an entry. What a rule leaves behind that
// is gone, or has another shape, is of no use: the counter that its units were
// charged to is not asked any more, and the new one has a limit of its own.
func (a *accounts) forgotten(e *table.Entry, now lease.Millis) bool {
	if a.rules.InForce == nil || a.rules.InForce.ByID[e.Rule] == nil && now < a.rules.Since+strandedFor {
		return false
	}
	return a.idle(e, now)
}
