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
	f := lease.Failure{By: by}
	if by == lease.FailureLocal {
		f.Share, f.Ends = d.localShare(p), lease.WindowEnd(now, d.pop.timeOfDay(now), p.limit.Spec().Period)
	}
	for range table.Tries {
		did := d.accounts.open(p, h.key).Fail(&p.terms, now, f, h.cost)
		h.failed(now, &did)
		if !did.Admitted {
			return lease.Refuse
		}
		switch p.table.Commit(now) {
		case table.Stored:
			h.taken = did.Taken(h.cost)
			return lease.Admit
		case table.Full, table.Failed:
			return d.unplaced(h, by)
		}
	}
	return d.unplaced(h, by)
}

// localShare is what this process enforces on its own of a limit.
func (d *decider) localShare(p *policy) int64 {
	return lease.Share(p.limit.Spec().Count, d.uplink.holders, p.rule.ExpectedHolders)
}

// failed notes a decision that was made without the tier above.
func (h *hit) failed(now lease.Millis, did *lease.Failed) {
	switch did.Why {
	case lease.ByAllow:
		h.decision = FailedOpen
	case lease.ByDeny:
		h.failClosed()
	case lease.ByShare:
		h.decision, h.quota.Reset = LocalAllowed, did.Reset
		if !did.Admitted {
			h.decision, h.quota.Remaining = LocalDenied, 0
		}
	case lease.ByDenial:
		h.decision, h.quota.Remaining, h.quota.Reset = Denied, 0, did.RetryAfter
		h.policy.denials.remember(h.key.Hash, now+whileAsking, now+h.quota.Reset, h.cost)
	}
}

func (h *hit) failClosed() lease.Verdict {
	h.decision, h.status = FailedClosed, h.policy.rule.DenyStatus
	h.quota.Remaining, h.quota.Reset = 0, 1000
	return lease.Refuse
}

// unplaced decides a hit whose tier above does not answer and whose key finds no
// place: what is admitted cannot be reported, and a share cannot be counted.
func (d *decider) unplaced(h *hit, by lease.OnFailure) lease.Verdict {
	if by.FailUncounted().Admitted {
		h.uncounted = true
		d.port.Counts.Unreported += uint64(h.cost)
		return lease.Admit
	}
	h.decision, h.status = FullDenied, h.policy.rule.DenyStatus
	return lease.Refuse
}
