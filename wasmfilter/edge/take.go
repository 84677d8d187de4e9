package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// takeLease decides a hit by the leases and denials in the account of its key.
func (d *decider) takeLease(now lease.Millis, h *hit) lease.Verdict {
	p := h.policy
	for range table.Tries {
		e := d.accounts.open(p, h.key)
		refused := e.Refused
		denied := e.DeniedNeed > 0 && h.cost-e.Held(&p.terms, now) >= e.DeniedNeed
		h.suspect, h.probes = denied || e.Refused, denied && p.exact
		did := e.Take(&p.terms, now, h.cost)
		if did.Verdict == lease.Unanswered {
			return d.unanswered(now, h, e, did.Ask)
		}
		h.describe(now, e, did.Verdict)
		if !d.changes(h, e, did, refused) {
			if did.Verdict == lease.Refuse {
				h.rememberDenial(now, e)
			}
			return did.Verdict
		}
		want, asks := d.askBehind(now, h, e, did.Ask)
		switch p.table.Commit(now) {
		case table.Stored:
			if asks {
				d.uplink.gather(now, p, h.key, want)
			}
			if did.Verdict == lease.Refuse {
				h.rememberDenial(now, e)
			}
			h.taken = did.Taken
			return did.Verdict
		case table.Full:
			if did.Verdict == lease.Refuse {
				return lease.Refuse
			}
			return lease.Wait // the region decides, whether there is a place or not
		case table.Failed:
			if did.Verdict == lease.Refuse {
				return lease.Refuse
			}
			return h.withoutPlace()
		}
	}
	return lease.Wait
}

// unanswered decides a hit of a key whose asks fail, and asks behind it whether they
// still do.
func (d *decider) unanswered(now lease.Millis, h *hit, e *table.Entry, asks lease.Asks) lease.Verdict {
	last := e.Back.Status()
	if want, asks := d.askBehind(now, h, e, asks); asks && h.policy.table.Commit(now) == table.Stored {
		d.uplink.gather(now, h.policy, h.key, want)
	}
	return d.failAnswered(now, h, last)
}

// changes reports whether a decision has changed the entry that is open, and whether
// that is to be written. Of refusals the first is; the count of the others is written
// with the next ask. refused: requests were refused before.
func (d *decider) changes(h *hit, e *table.Entry, did lease.Decision, refused bool) bool {
	if did.Ask != lease.NoAsk && d.uplink.mayAsk(h.policy, h.key) {
		return true
	}
	switch did.Verdict {
	case lease.Wait:
		return false // what an exact rule asks is claimed when it is asked, see prepare
	case lease.Refuse:
		return !refused
	}
	return true
}

// askBehind prepares an ask for which no request waits, in the entry that is open.
func (d *decider) askBehind(now lease.Millis, h *hit, e *table.Entry, asks lease.Asks) (lease.Want, bool) {
	if asks == lease.NoAsk || !d.uplink.mayAsk(h.policy, h.key) {
		return lease.Want{}, false
	}
	e.Denied += int64(h.policy.denials.forget(h.key.Hash))
	return e.Ask(&h.policy.terms, now, 0, 0, asks), true
}

// describe fills in the quota of a hit by the account of its key.
func (h *hit) describe(now lease.Millis, e *table.Entry, v lease.Verdict) {
	h.quota.Remaining = e.Left + e.Available(now)
	h.quota.Reset = max(0, e.Reset-now)
	if v == lease.Refuse {
		h.quota.Remaining = 0
		h.quota.Reset = e.Retry(&h.policy.terms, now, h.cost)
	}
}

// rememberDenial puts a denial in front of the table, for as long as the account
// would do nothing else: until a request may ask, or a little while where an answer
// is on its way.
func (h *hit) rememberDenial(now lease.Millis, e *table.Entry) {
	until, need := e.NextAsk, e.LeastRefused(&h.policy.terms, now)
	if h.cost < need { // what refuses it is that the limit is used up
		until, need = min(until, e.LimitedUntil), h.cost
	}
	if until <= now {
		until = now + whileAsking
	}
	h.policy.denials.remember(h.key.Hash, until, now+h.quota.Reset, need)
}

// withoutPlace decides a hit that has no place in the table.
func (h *hit) withoutPlace() lease.Verdict {
	h.uncounted = true
	if h.policy.rule.OnFailure.FailUncounted().Admitted {
		h.decision = FullAllowed
		return lease.Admit
	}
	h.decision, h.status = FullDenied, h.policy.rule.DenyStatus
	return lease.Refuse
}

// takeLocal decides a hit of scope: pop, whose counter is in the table itself. Keys
// that find no place share one counter per rule and page.
func (d *decider) takeLocal(now lease.Millis, h *hit) lease.Verdict {
	p := h.policy
	for range table.Tries {
		e, shared := p.table.OpenShared(h.key)
		v, outcome := d.charge(now, h, e, shared)
		if outcome == table.Full {
			if e = p.table.Join(now); e == nil {
				return h.withoutPlace()
			}
			if v, outcome = d.charge(now, h, e, true); v == lease.Refuse {
				p.table.Commit(now) // so that the next request finds it at once
			}
		}
		switch outcome {
		case table.Stored:
			return v
		case table.Full, table.Failed:
			return h.withoutPlace()
		}
	}
	return h.withoutPlace()
}

// charge decides a hit of scope: pop by the counter that is open, and writes it.
func (d *decider) charge(now lease.Millis, h *hit, e *table.Entry, shared bool) (lease.Verdict, table.Outcome) {
	ask := limit.Ask{Need: h.cost, Waiting: h.cost, Want: h.cost}
	var did limit.Decision
	e.Counter, did = h.policy.limit.Acquire(e.Counter, d.pop.timeOfDay(now), ask)
	h.quota.Remaining, h.quota.Reset = did.Remaining, lease.CeilMillis(did.Reset)
	h.decision = Allowed
	if shared {
		h.decision = FullAllowed
	}
	if did.Granted == 0 {
		if shared {
			h.decision = FullDenied
		}
		return h.refuseLocal(now, did), table.Stored
	}
	h.period = did.Period
	return lease.Admit, h.policy.table.Commit(now)
}

// refuseLocal refuses a hit of scope: pop. A denial that is charged is written; one
// that costs nothing is kept in the cache until it is over.
func (h *hit) refuseLocal(now lease.Millis, did limit.Decision) lease.Verdict {
	retryAt := now + lease.CeilMillis(did.RetryAfter)
	h.retry(now, retryAt)
	if h.policy.terms.ChargesDenied {
		h.policy.table.Commit(now)
		return lease.Refuse
	}
	h.policy.denials.remember(h.key.Hash, min(retryAt, now+longestLocalDenial), retryAt, h.cost)
	return lease.Refuse
}

// longestLocalDenial bounds how long a denial of scope: pop is not looked at again:
// units may be put back meanwhile.
const longestLocalDenial lease.Millis = 100
