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
	// region answers with unknown_rule: a replica with other rules may know it.
	unknownFor lease.Millis = 30_000
)

// idle reports whether an entry of the table may be forgotten: it says nothing that
// a new one would not, or belongs to no rule in force.
func (w *Worker) idle(e *table.Entry, now lease.Millis) bool {
	if w.rules == nil {
		return false
	}
	p := w.rules.byID[e.Rule]
	switch {
	case p == nil:
		return w.newest()
	case p.local():
		return p.limit.Fresh(e.Counter, w.Wall(now))
	}
	return e.Account.Idle(&p.terms, now)
}

// newest reports whether the rules of this worker are those in force. Who asks after
// it has read an entry of a rule that it does not have knows that the rule is gone:
// newer rules are announced before anybody decides by them.
func (w *Worker) newest() bool {
	tag, _ := w.rulesTag()
	return tag.generation == w.rulesGen
}

// forgotten reports whether the scan drops an entry. What a rule leaves behind that
// is gone, or has another shape, is of no use to anybody: the counter that its units
// were charged to is not asked any more, and the new one has a limit of its own.
func (w *Worker) forgotten(e *table.Entry, now lease.Millis) bool {
	if w.rules == nil || w.rules.byID[e.Rule] == nil && now < w.rulesSince+strandedFor {
		return false
	}
	return w.idle(e, now)
}

// drop counts what is lost with an entry.
func (w *Worker) drop(e *table.Entry) {
	for i := range e.Lots {
		if !e.Lots[i].Local {
			w.Counts.Lost += uint64(e.Lots[i].Units)
		}
	}
	w.Counts.Unreported += uint64(e.Overdrawn)
}

// unknown drops the debt of a key whose rule the region does not know, unless the
// key was asked for not long ago.
func (w *Worker) unknown(now lease.Millis, p *policy, key table.Key) {
	var dropped int64
	w.change(now, p, key, func(e *table.Entry) {
		if dropped = 0; now >= e.Asked+unknownFor {
			dropped = e.Forgive()
		}
	})
	w.Counts.Unreported += uint64(dropped)
}

// sweepSlots drops what lapsed of some pages of slots.
func (w *Worker) sweepSlots(now lease.Millis) {
	for range (table.PoolPages + scanTicks - 1) / scanTicks {
		w.slots.Sweep(now, w.sweptSlots)
		w.shadowSlots.Sweep(now, w.sweptSlots)
		w.sweptSlots = (w.sweptSlots + 1) % table.PoolPages
	}
}
