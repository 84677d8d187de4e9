package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// taker decides one rule for one request, by what the PoP has for its key: it takes from
// the account or from the slots, or rejects, or leaves the hit to an answer of the region,
// or to on_failure.
type taker struct {
	port     *Port
	pop      *pop.PoP
	accounts *accounts
	slots    *slots
	uplink   *uplink.Uplink
	asks     *asks
}

// take decides a hit by what this PoP has.
func (d *taker) take(now lease.Millis, h *hit) holder.Verdict {
	switch {
	case h.noSecret: // its key cannot be hashed, and is not counted in plain
		if h.uncountable(rulebook.FailedOpen) == holder.Admit {
			return holder.Admit
		}
		h.quota.Reset = failedRetry
		return holder.Reject
	case h.policy.Concurrency:
		return d.enter(now, h)
	case h.policy.Local:
		return d.takeLocal(now, h)
	}
	return d.takeLease(now, h)
}

// takeUndenied is take, unless the cache of denials rejects the hit.
func (d *taker) takeUndenied(now lease.Millis, h *hit) holder.Verdict {
	if h.rejectedBefore(now) {
		return holder.Reject
	}
	return d.take(now, h)
}

// takeLease decides a hit by the units that this worker has of its key, or else by the account.
func (d *taker) takeLease(now lease.Millis, h *hit) holder.Verdict {
	s := d.accounts.sublease(h.policy, h.key)
	if s == nil {
		return d.takeAccount(now, h, nil)
	}
	if s.Spend(now, h.cost) {
		h.taken.Parts[0] = holder.Part{Units: h.cost, Lease: s.Lease, Expiry: s.Expiry}
		h.own = s.OwnLimit
		h.quota.Remaining, h.quota.Reset = s.Left+s.Units, max(0, s.Reset-now)
		return holder.Admit
	}
	if s.Units > 0 {
		d.accounts.putBack(now, s)
	}
	if !s.Often(now, h.policy.Terms.Interval) {
		s = nil
	}
	return d.takeAccount(now, h, s)
}

// takeAccount decides a hit by the leases and denials in the account of its key. The first
// rejection is written at once, and the count of the others with the next ask. An exact rule
// claims its right to ask when it asks, see [taker.right]. With s it takes more for the next hits.
func (d *taker) takeAccount(now lease.Millis, h *hit, s *table.Sublease) holder.Verdict {
	p := h.policy
	for range table.Tries {
		e := d.accounts.open(p, h.key)
		rejected := e.Rejected
		denied := e.Phase == holder.PhaseDenied && h.cost-e.Held(&p.Terms, now) >= e.Least
		h.suspect = denied || rejected
		did := e.Take(&p.Terms, now, h.cost)
		if did.Verdict != holder.Unanswered {
			h.describe(now, e, did.Verdict)
		}
		asks, outcome := did.Ask != holder.NoAsk && d.asks.may(p, h.key), table.Stored
		var want lease.Want
		if asks { // no request waits for it
			e.Denied = lease.Sum(e.Denied, p.Denials.Forget(h.key.Hash))
			want = e.Ask(&p.Terms, now, 0, 0, did.Ask)
		}
		var more holder.Part
		var until lease.Millis
		if s != nil && did.Verdict == holder.Admit {
			more, until = d.accounts.sublet(now, p, e)
		}
		if asks || did.Verdict == holder.Admit || did.Verdict == holder.Reject && !rejected {
			outcome = p.Table.Commit(now)
		}
		if asks && outcome == table.Stored {
			d.asks.begin(now, p, h.key, want)
		}
		switch {
		case did.Verdict == holder.Unanswered:
			return d.failAnswered(now, h, e.Back.Status())
		case outcome == table.Raced:
			continue
		case did.Verdict == holder.Reject:
			if outcome == table.Stored {
				if h.rememberDenial(now, e); rejected && !asks {
					p.Denials.Count(h.key.Hash, h.cost)
				}
			}
			return holder.Reject
		case outcome == table.Full:
			return holder.Wait // the region decides, whether there is a place or not
		case outcome == table.Failed:
			return h.withoutPlace()
		}
		if more.Units > 0 {
			d.accounts.subleases.Begin(s, e, more, now, until)
		}
		h.taken = did.Taken
		return did.Verdict
	}
	return holder.Wait
}

// right takes the right to ask for the key of h, and makes the want: then the verdict is
// Wait. Reject: another worker asks for a denied key of an exact rule, on behalf of all.
// Unanswered: asks for the key fail, and another worker tries whether they still do. A key
// that has no place in the table asks for no more than is waited for.
func (d *taker) right(now lease.Millis, h *hit, waiting int64) (lease.Want, holder.Verdict) {
	p, verdict := h.policy, holder.Wait
	want := lease.Want{Need: h.cost, Waiting: waiting, Want: waiting}
	if p.Concurrency {
		return want, verdict // stated when it is sent
	}
	plain, denied := want, p.Denials.Forget(h.key.Hash)
	outcome := d.accounts.try(now, p, h.key, func(e *table.Entry) bool {
		e.Denied = lease.Sum(e.Denied, denied)
		switch {
		case p.Exact && e.Take(&p.Terms, now, h.cost).Verdict == holder.Reject:
			h.describe(now, e, holder.Reject)
			h.rememberDenial(now, e)
			p.Denials.Count(h.key.Hash, h.cost)
			verdict = holder.Reject
		case e.Back.Off(now):
			verdict = holder.Unanswered
		default:
			want = e.Ask(&p.Terms, now, h.cost, waiting, holder.NoAsk)
			return true
		}
		return false
	})
	if outcome != table.Stored {
		want = plain
	}
	return want, verdict
}

// describe fills in the quota of a hit by the account of its key.
func (h *hit) describe(now lease.Millis, e *table.Entry, v holder.Verdict) {
	h.own = e.OwnLimit
	h.quota.Remaining = e.Left + e.Available(now)
	h.quota.Reset = max(0, e.Reset-now)
	if v == holder.Reject {
		h.blocked = h.policy.Limit.Blocks() && e.Blocked()
		h.quota.Remaining = 0
		h.quota.Reset = e.Retry(&h.policy.Terms, now, h.cost)
	}
}

// whileAsking is how long a denial is kept in front of the table when an answer is under way.
const whileAsking lease.Millis = 2

// rememberDenial puts a denial in front of the table, for as long as the account
// would do nothing else: until a request may ask, or a little while where an answer
// is on its way.
func (h *hit) rememberDenial(now lease.Millis, e *table.Entry) {
	until := e.PausedUntil(&h.policy.Terms)
	if until <= now || e.Phase == holder.PhasePartial && e.UnderWay(&h.policy.Terms, now) {
		until = now + whileAsking
	}
	if h.cost > 1 && e.Left+e.Held(&h.policy.Terms, now) > 0 { // cheaper requests at other workers make its wait longer
		until = now
	}
	h.policy.Denials.Remember(h.key.Hash, table.Rejection{Until: until, RetryAt: now + h.quota.Reset, Cost: h.cost, OwnLimit: e.OwnLimit, Blocked: h.blocked})
}

// uncountable decides by on_failure a hit that cannot be counted: by this decision if that admits it, and else by the next one.
func (h *hit) uncountable(allowed rulebook.Decision) holder.Verdict {
	h.uncounted, h.decision = true, allowed
	if h.policy.Rule.OnFailure.FailUncounted().Admitted {
		return holder.Admit
	}
	h.decision, h.status = allowed+1, h.policy.Rule.DenyStatus
	return holder.Reject
}

// withoutPlace decides a hit that has no place in the table.
func (h *hit) withoutPlace() holder.Verdict { return h.uncountable(rulebook.FullAllowed) }

// takeLocal decides a hit of scope: pop, whose counter is in the table itself. Keys
// that find no place share one counter per rule and page.
func (d *taker) takeLocal(now lease.Millis, h *hit) holder.Verdict {
	p := h.policy
	for range table.Tries {
		e, shared := p.Table.OpenShared(h.key)
		v, outcome := d.charge(now, h, e, shared)
		if outcome == table.Full {
			v, outcome = d.charge(now, h, p.Table.Join(), true)
		}
		if outcome == table.Stored {
			return v
		}
		if outcome != table.Raced {
			break
		}
	}
	return h.withoutPlace()
}

// charge decides a hit of scope: pop by the counter that is open, and writes it. A denial
// that costs nothing is not written, but kept in the cache until it is over.
func (d *taker) charge(now lease.Millis, h *hit, e *table.Entry, shared bool) (holder.Verdict, table.Outcome) {
	e.State = holder.State{} // is of a time when the rule had another scope, and takes the room of the lockout
	ask := limit.Ask{Need: h.cost, Waiting: h.cost, Want: h.cost}
	var did limit.Decision
	if shared { // a block would be one of all keys that share the counter
		did = h.policy.Limit.Decide(&e.Counter, d.pop.TimeOfDay(now), ask)
	} else {
		did = h.policy.Limit.DecideBlocking(&e.Counter, &e.Lockout, d.pop.TimeOfDay(now), ask)
	}
	h.quota.Remaining, h.quota.Reset = did.Remaining, lease.CeilMillis(did.Reset)
	if did.Granted > 0 {
		if h.decision = rulebook.Allowed; shared {
			h.decision = rulebook.FullAllowed
		}
		h.period = did.Period
		return holder.Admit, h.policy.Table.Commit(now)
	}
	if h.decision = rulebook.Denied; shared {
		h.decision = rulebook.FullDenied
	}
	retryAt := now + lease.CeilMillis(did.RetryAfter)
	h.retry(now, retryAt)
	if h.blocked = did.Block > 0; h.blocked || h.policy.Terms.ChargesRejected {
		h.policy.Table.Commit(now)
	}
	if !h.policy.Terms.ChargesRejected && did.Remaining == 0 { // else see rememberDenial
		h.policy.Denials.Remember(h.key.Hash, table.Rejection{Until: min(retryAt, now+longestLocalDenial), RetryAt: retryAt, Cost: h.cost, Blocked: h.blocked})
	}
	return holder.Reject, table.Stored
}

// longestLocalDenial bounds how long a denial of scope: pop is not looked at again:
// units may be put back meanwhile.
const longestLocalDenial lease.Millis = 100
