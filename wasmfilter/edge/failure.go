package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// fail decides a hit whose region does not answer: what was denied stays
// denied, and the rule's on_failure decides the rest.
func (d *taker) fail(now lease.Millis, h *hit) holder.Verdict {
	if h.denied {
		return holder.Reject
	}
	return d.failBy(now, h, h.policy.Rule.OnFailure)
}

// failAnswered decides a hit that was answered, and not decided. A granter that does
// not have the rule is not away: it has other rules, and the next one may have ours.
// The rule goes on to hold, by this process's share of it, whatever its on_failure.
func (d *taker) failAnswered(now lease.Millis, h *hit, s lease.Status) holder.Verdict {
	if s == lease.UnknownRule {
		return d.failBy(now, h, lease.FailureLocal)
	}
	return d.fail(now, h)
}

func (d *taker) failBy(now lease.Millis, h *hit, by lease.OnFailure) holder.Verdict {
	p := h.policy
	spec := p.Limit.Spec()
	if share := d.uplink.Share; share > 0 && p.Rule.Scope == rule.ScopeGlobal { // the rest is that of other regions
		spec.Count = share.Of(spec.Count)
	}
	f := by.Among(d.uplink.Holders, p.Rule.ExpectedPoPs, spec, now, d.pop.TimeOfDay(now))
	if p.Concurrency {
		return d.failSlots(now, h, f)
	}
	var did lease.Failed
	outcome := d.accounts.try(now, p, h.key, func(e *table.Entry) bool {
		owed := e.Overdrawn
		did = e.Fail(&p.Terms, now, f, h.cost)
		if did.Admitted && p.Terms.Reserves { // a debt that is reported does not come back: the response makes it, see accounts.settle
			e.Overdrawn, did.Unowed = owed, h.cost
		}
		return did.Admitted
	})
	verdict := h.failed(now, &did)
	switch {
	case outcome != table.Stored && !by.FailUncounted().Admitted:
		h.decision, h.status = rulebook.FullDenied, p.Rule.DenyStatus
		return holder.Reject
	case outcome != table.Stored: // what is admitted cannot be reported
		h.uncounted = true
		d.port.Unreported += uint64(h.cost)
	case did.Admitted:
		h.taken = holder.TakenBy(&did, h.cost)
	}
	return verdict
}

// failSlots decides a hit of a concurrency rule whose region does not answer.
// Its slots count all the same, and are stated when there is an answer again.
func (d *taker) failSlots(now lease.Millis, h *hit, f lease.Failure) holder.Verdict {
	hd := d.slots.of(h)
	var did lease.Failed
	outcome := d.slots.share(now, hd, func() bool {
		if did = f.FailSlots(hd.free(now), hd.used(), h.cost); did.Admitted {
			hd.inUse += h.cost
		}
		return did.Admitted
	})
	if did.Admitted && outcome != table.Stored { // others do not see it
		if did = f.By.FailUncounted(); did.Admitted {
			hd.inUse += h.cost
			d.slots.publish(now, hd)
		}
	}
	if did.Admitted {
		h.slots = hd
	}
	return h.failed(now, &did)
}

// failed notes a decision that was made without the region.
func (h *hit) failed(now lease.Millis, did *lease.Failed) holder.Verdict {
	if !did.Denied {
		h.own = 0 // the rule's limit decides
	}
	switch {
	case did.Denied:
		h.decision = rulebook.Denied
		h.policy.Denials.Remember(h.key.Hash, table.Rejection{Until: now + whileAsking, RetryAt: now + did.RetryAfter, Cost: h.cost, OwnLimit: h.own})
	case did.By == lease.FailureAllow:
		h.decision = rulebook.FailedOpen
	case did.By == lease.FailureDeny:
		h.decision, h.status = rulebook.FailedClosed, h.policy.Rule.DenyStatus
	case did.Admitted:
		h.decision, h.quota.Reset = rulebook.LocalAllowed, did.Reset
	default:
		h.decision = rulebook.LocalDenied
	}
	if did.Admitted {
		return holder.Admit
	}
	h.quota.Remaining, h.quota.Reset = 0, did.RetryAfter
	if did.RetryAfter == 0 {
		h.quota.Reset = failedRetry
	}
	return holder.Reject
}

// failedRetry is after how long a client should come back that is rejected because the
// region does not answer.
const failedRetry lease.Millis = 1000

// FallBack decides all requests that wait, by on_failure: no answer will come.
func (w *Worker) FallBack(now lease.Millis) {
	for len(w.decider.waiting) > 0 {
		r := w.decider.waiting[0]
		w.decider.finish(now, r, w.decider.failUndecided(now, r, true))
	}
}

// Panicked returns the status with which a request is rejected if its decision was cut short; 0: it passes. Nothing can be
// counted then, so on_failure: local rejects as deny does. r is nil if no request was matched: before_rules decides.
func (w *Worker) Panicked(r *Request) (status int) {
	switch {
	case r == nil && w.cfg.DenyBeforeRules:
		return 503
	case r == nil:
		return 0
	case len(r.hits) == 0: // it has not begun
		for i := range w.decider.matches.Hits {
			m := &w.decider.matches.Hits[i]
			if p := &w.rules.InForce.ByRule[m.Rule][m.Variant]; !p.Shadow && status == 0 {
				status = deniesUncounted(p)
			}
		}
		return status
	}
	for i := range r.hits {
		if status == 0 {
			status = deniesUncounted(r.hits[i].policy)
		}
	}
	return status
}

// deniesUncounted is the status of a denial where nothing can be counted; 0: the rule admits.
func deniesUncounted(p *rulebook.Policy) (status int) {
	if p.Rule.OnFailure.FailUncounted().Admitted {
		return 0
	}
	return p.Rule.DenyStatus
}

// Abandon ends a request whose decision was cut short, and puts back what was taken for it.
func (w *Worker) Abandon(now lease.Millis, r *Request) {
	r.Outcome = Wait
	w.decider.end(now, r)
}
