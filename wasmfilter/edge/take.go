package edge

import (
	"github.com/weirlimit/weir/internal/lease"
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

// askBehind prepares an ask for which nobody waits, in the entry that is open.
func (d *decider) askBehind(now lease.Millis, h *hit, e *table.Entry, asks lease.Asks) (lease.Want, bool) {
	if asks == lease.NoAsk || !d.uplink.mayAsk(h.policy, h.key) {
		return lease.Want{}, false
	}
	e.Denied += int64(h.policy.denials.forget(h.key.Hash))
	return e.Ask(&h.policy.terms, now, 0, 0, asks), true
}

// describe fills in what the response tells about a hit.
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
	if h.policy.rule.OnFailure == lease.FailureAllow {
		h.decision = FullAllowed
		return lease.Admit
	}
	h.decision, h.status = FullDenied, h.policy.rule.DenyStatus
	return lease.Refuse
}
