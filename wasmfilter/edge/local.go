package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

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
