package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// accounts are the PoP's state of each key: an entry with its account, or its counter, in
// a table that the workers share, and in front of it this worker's caches of denials and of units.
// Shadow rules have a table and a cache of denials of their own.
type accounts struct {
	port   *Port
	pop    *pop.PoP
	rules  *rulebook.Rulebook
	uplink *uplink.Uplink

	enforced, shadow               *table.Table
	enforcedDenials, shadowDenials table.Denials
	subleases                      table.Subleases
}

func (a *accounts) init(pagesLog2 int) {
	a.enforced = table.New(a.pop.Store, enforcedTable, pagesLog2, a.idle)
	a.shadow = table.New(a.pop.Store, shadowTable, pagesLog2, a.idle)
	a.shadow.Counts = a.enforced.Counts
	a.enforced.Eviction = table.Eviction{Merge: a.merge, Gone: a.gone}
	a.shadow.Eviction = a.enforced.Eviction
}

// open reads a key's entry. Denials of earlier rules are void.
func (a *accounts) open(p *rulebook.Policy, key table.Key) *table.Entry {
	if p.Local {
		e, _ := p.Table.OpenShared(key)
		return e
	}
	e := p.Table.Open(key)
	if e.Counter.At != 0 { // of a time when the rule had scope: pop
		e.Counter, e.Lockout = limit.State{}, limit.Lockout{}
	}
	if e.Asked < a.rules.Since {
		e.VoidDenials()
	}
	return e
}

// try changes a key's entry if change returns true. change may be called several times;
// what it did the last time counts. Nothing happened unless the outcome is Stored.
func (a *accounts) try(now lease.Millis, p *rulebook.Policy, key table.Key, change func(*table.Entry) bool) (outcome table.Outcome) {
	for range table.Tries {
		if !change(a.open(p, key)) {
			return table.Stored
		}
		if outcome = p.Table.Commit(now); outcome != table.Raced {
			break
		}
	}
	return outcome
}

// change is try for a change that is always made.
func (a *accounts) change(now lease.Millis, p *rulebook.Policy, key table.Key, change func(*table.Entry)) table.Outcome {
	return a.try(now, p, key, func(e *table.Entry) bool { change(e); return true })
}

// sublease is this worker's place for units of a key; nil if the rule has none: an exact one is asked
// for each request, a denial that is charged uses up what the account holds, all of it, and of a limit that
// all regions share more requests would wait for the aggregator.
func (a *accounts) sublease(p *rulebook.Policy, key table.Key) *table.Sublease {
	if p.Exact || p.Terms.ChargesRejected || p.Rule.Scope == rule.ScopeGlobal {
		return nil
	}
	return a.subleases.At(key)
}

// sublet moves units of the account that is open to this worker, before it is committed. They stay no
// longer than until the account has to be looked at: when the lease interval is over, the lot ends, or it
// is time to ask for the next window.
func (a *accounts) sublet(now lease.Millis, p *rulebook.Policy, e *table.Entry) (part holder.Part, until lease.Millis) {
	if part = e.Sublet(now); part.Units == 0 {
		return part, 0
	}
	until = min(now+p.Terms.Interval, part.Expiry)
	if ahead := e.Reset - p.Terms.Lead; p.Terms.Lead > 0 && now < ahead {
		until = min(until, ahead)
	}
	return part, until
}

// putBack puts the units of a sublease back into their account. A rule that is gone, or that counts in the
// PoP by now, takes none.
func (a *accounts) putBack(now lease.Millis, s *table.Sublease) {
	part := s.Part
	s.Part = holder.Part{}
	if p := a.rules.InForce.ByID[s.Key.Rule]; p != nil && !p.Local {
		a.refund(now, &hit{policy: p, key: s.Key, taken: holder.Taken{Parts: [2]holder.Part{part}}})
	}
}

// refund puts back what a hit took. Units of which the account has no lease any more
// go back to the region.
func (a *accounts) refund(now lease.Millis, h *hit) {
	p, taken := h.policy, h.taken
	var back [2]holder.Part
	if a.change(now, p, h.key, func(e *table.Entry) { back = e.Refund(&p.Terms, taken) }) == table.Stored {
		a.uplink.ReturnSoon(p, h.key, back[0])
		a.uplink.ReturnSoon(p, h.key, back[1])
	}
}

// settle settles a reservation, and forgets denials that it may have caused. Units of which the account has no lease go back
// with the next call, as a debt does: no request waits for them, and responses are many.
func (a *accounts) settle(now lease.Millis, h *hit) {
	p := h.policy
	if h.taken == (holder.Taken{}) {
		return
	}
	unused, excess := h.taken.Beyond(h.used), max(0, h.used-h.cost)
	if counted := h.taken.Parts[0]; p.Limit.Spec().Reserves { // only a limit that blocks needs to know
		counted.Units -= unused.Parts[0].Units
		a.uplink.Settle(p, h.key, counted)
		excess += h.taken.Unowed - unused.Unowed // of on_failure
	}
	if h.used == h.cost && excess == 0 {
		return
	}
	var back [2]holder.Part
	var debt lease.Want
	denied := p.Denials.Forget(h.key.Hash)
	if a.change(now, p, h.key, func(e *table.Entry) {
		e.Denied = lease.Sum(e.Denied, denied)
		back = e.Refund(&p.Terms, unused)
		debt = e.Exceed(&p.Terms, now, excess)
	}) != table.Stored {
		back, debt = unused.Parts, lease.Want{}
		a.port.Unreported += uint64(excess)
	}
	a.uplink.GiveBackLater(now, p, h.key, back[0])
	a.uplink.GiveBackLater(now, p, h.key, back[1])
	a.uplink.ReportLater(now, uplink.Report{Policy: p, Key: h.key, Want: debt, Account: true})
}

// refundLocal puts back what a hit of scope: pop took.
func (a *accounts) refundLocal(now lease.Millis, h *hit) {
	p, period, cost := h.policy, h.period, h.cost
	a.change(now, p, h.key, func(e *table.Entry) {
		e.Counter, _ = p.Limit.Return(e.Counter, a.pop.TimeOfDay(now), period, cost)
		p.Limit.Settle(&e.Lockout, p.Limit.PeriodID(period), cost)
	})
}

// settleLocal settles a reservation of a hit of scope: pop.
func (a *accounts) settleLocal(now lease.Millis, h *hit) {
	p, at := h.policy, a.pop.TimeOfDay(now)
	a.change(now, p, h.key, func(e *table.Entry) {
		if h.used < h.cost {
			e.Counter, _ = p.Limit.Return(e.Counter, at, h.period, h.cost-h.used)
		} else {
			e.Counter = p.Limit.Charge(e.Counter, at, h.used-h.cost)
		}
		p.Limit.Settle(&e.Lockout, p.Limit.PeriodID(h.period), h.cost)
	})
}

// keep stores a grant, with its spare units, in the account of its key.
func (a *accounts) keep(now, sent lease.Millis, of *ask, g lease.Grant, spare int64) {
	p, key, want, jitter := of.policy, of.key, of.want, a.pop.Jitter()
	var rest holder.Part
	denied := p.Denials.Forget(key.Hash)
	outcome := a.change(now, p, key, func(e *table.Entry) {
		e.Denied = lease.Sum(e.Denied, denied)
		if g.Status == lease.OK && g.Granted == 0 && want.Need > 0 {
			e.ApplyGroupDenied(&p.Terms, now, sent, want, g)
			return
		}
		rest = e.Apply(&p.Terms, now, sent, want, g, spare, jitter)
	})
	if outcome != table.Stored {
		rest = holder.Part{Units: spare, Lease: g.Lease}
	}
	if p.Exact { // units of requests that have gone, or were rejected by another rule
		a.uplink.ReturnSoon(p, key, rest)
	} else {
		a.uplink.GiveBack(p, key, rest)
	}
	if outcome != table.Stored && g.Status == lease.Denied { // nothing else remembers it
		p.Denials.Remember(key.Hash, table.Rejection{
			Until: now + max(g.AskAfter, 1), RetryAt: now + max(g.RetryAfter, 1), Cost: want.Need, OwnLimit: p.Terms.OwnLimit(&g), Blocked: g.Block > 0,
		})
	}
}

// reported clears what the region has acknowledged of a finding of the scan. The debt of a
// key whose rule the region does not have is dropped, unless the key was asked for not
// long ago.
func (a *accounts) reported(now, sent lease.Millis, r *uplink.Report, g lease.Grant) {
	p, key, want := r.Policy, r.Key, r.Want
	jitter, dropped := a.pop.Jitter(), int64(0)
	var debt lease.Want // of responses since
	a.change(now, p, key, func(e *table.Entry) {
		if dropped = 0; want.Overdrawn > 0 && g.Status == lease.UnknownRule && now >= e.Asked+unknownFor {
			dropped = e.DropDebt()
		}
		e.Apply(&p.Terms, now, sent, want, g, 0, jitter)
		debt = e.Owed(now)
	})
	a.uplink.ReportLater(now, uplink.Report{Policy: p, Key: key, Want: debt, Account: true})
	a.port.Unreported += uint64(dropped)
}

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
		time := a.pop.TimeOfDay(now)
		return p.Limit.Fresh(e.Counter, time) && e.Lockout.Ends <= time
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
