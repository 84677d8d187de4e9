package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// fail decides a hit whose tier above does not answer: what was denied stays
// denied, anything else goes by the rule's on_failure.
func (d *decider) fail(now lease.Millis, h *hit) lease.Verdict {
	return d.failBy(now, h, h.policy.rule.OnFailure)
}

// failAnswered decides a hit that was answered, and not decided. A granter that does
// not have the rule is not away: it has other rules, and the next one may have ours.
// The rule goes on to hold, by this process's share of it, whatever its on_failure.
func (d *decider) failAnswered(now lease.Millis, h *hit, s lease.Status) lease.Verdict {
	if s == lease.UnknownRule {
		return d.failBy(now, h, lease.FailureLocal)
	}
	return d.fail(now, h)
}

func (d *decider) failBy(now lease.Millis, h *hit, by lease.OnFailure) lease.Verdict {
	p := h.policy
	if p.concurrency {
		return d.failSlots(now, h, by)
	}
	for range table.Tries {
		e := d.accounts.open(p, h.key)
		if e.Remembered(now, h.cost) {
			h.decision = Denied
			h.quota.Remaining = 0
			h.quota.Reset = e.Retry(&p.terms, now, h.cost)
			p.denials.remember(h.key.Hash, now+whileAsking, now+h.quota.Reset, h.cost)
			return lease.Refuse
		}
		owed := e.Overdrawn
		if d.failure(now, h, e, by) == lease.Refuse {
			return lease.Refuse
		}
		owed = e.Overdrawn - owed
		switch p.table.Commit(now) {
		case table.Stored:
			h.taken = lease.Taken{Overdrawn: h.cost, Unowed: h.cost - owed, Local: h.decision == LocalAllowed}
			return lease.Admit
		case table.Full, table.Failed:
			return d.unplaced(h)
		}
	}
	return d.unplaced(h)
}

// failure applies on_failure to the entry that is open.
func (d *decider) failure(now lease.Millis, h *hit, e *table.Entry, by lease.OnFailure) lease.Verdict {
	p := h.policy
	switch by {
	case lease.FailureAllow:
		h.decision = FailedOpen
		e.Overdraw(&p.terms, h.cost)
		return lease.Admit
	case lease.FailureDeny:
		return h.failClosed()
	}
	ends := d.windowEnd(now, p)
	h.decision = LocalAllowed
	h.quota.Reset = ends - now
	if e.TakeLocal(&p.terms, now, ends, d.localShare(p), h.cost) {
		return lease.Admit
	}
	h.decision, h.quota.Remaining = LocalDenied, 0
	return lease.Refuse
}

func (h *hit) failClosed() lease.Verdict {
	h.decision, h.status = FailedClosed, h.policy.rule.DenyStatus
	h.quota.Remaining, h.quota.Reset = 0, 1000
	return lease.Refuse
}

// windowEnd is when the window of a limit ends, by the time of day.
func (d *decider) windowEnd(now lease.Millis, p *policy) lease.Millis {
	return now + p.period - millis(d.pop.timeOfDay(now))%p.period
}

// localShare is what this process enforces on its own of a limit.
func (d *decider) localShare(p *policy) int64 {
	return lease.Share(p.limit.Spec().Count, d.uplink.holders, p.rule.ExpectedHolders)
}

// unplaced decides a hit whose tier above does not answer and whose key finds no
// place: what is admitted cannot be reported, and a share cannot be counted.
func (d *decider) unplaced(h *hit) lease.Verdict {
	if h.decision == FailedOpen {
		h.uncounted = true
		d.port.Counts.Unreported += uint64(h.cost)
		return lease.Admit
	}
	h.decision, h.status = FullDenied, h.policy.rule.DenyStatus
	return lease.Refuse
}
