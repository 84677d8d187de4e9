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

// merge makes the shared counter of a rule with scope: pop reject what e rejects, so
// that a key that spent its limit does not get another one with the place of others.
func (a *accounts) merge(shared, e *table.Entry, now lease.Millis) bool {
	p := a.rules.InForce.ByID[e.Rule]
	if p == nil { // this worker does not have the rule yet
		return false
	}
	shared.Counter = p.Limit.Union(shared.Counter, e.Counter, a.pop.TimeOfDay(now))
	return true
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
