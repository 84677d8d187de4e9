package edge

import (
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Decide takes a request through the rules: what the rules need of it is in, the
// verdict is r.Outcome, which it returns.
func (w *Worker) Decide(now lease.Millis, in *rule.Request, r *Request) Outcome {
	r.begin(now)
	w.decidedLately = true
	if w.rules == nil {
		return w.beforeRules(r)
	}
	w.rules.set.Match(in, &w.matches)
	for _, i := range w.matches.MissingKey {
		w.countsOf(w.rules.set.Rule(i).Name).MissingKey++
	}
	shadows := w.addHits(r)
	if len(r.hits) > 0 {
		w.enforce(now, r)
	}
	if shadows && r.Outcome != Deny {
		w.decideShadows(now, r)
	}
	w.flush(now)
	return r.Outcome
}

// beforeRules decides while there are no rules.
func (w *Worker) beforeRules(r *Request) Outcome {
	w.Counts.BeforeAny++
	if w.cfg.DenyBeforeRules {
		r.Outcome, r.Status, r.Degraded = Deny, 503, true
	}
	return r.Outcome
}

// addHits makes the hits of the enforced rules; it reports whether there are
// shadow rules too.
func (w *Worker) addHits(r *Request) (shadows bool) {
	for i := range w.matches.Hits {
		m := &w.matches.Hits[i]
		p := &w.rules.byRule[m.Rule][m.Variant]
		if p.shadow() {
			shadows = true
			continue
		}
		r.hits = append(r.hits, hit{
			policy: p,
			key:    p.key(w.seed, m.Key),
			cost:   m.Cost,
			report: Report{Rule: p.rule, Policy: p.item, Limit: p.terms.Capacity},
		})
	}
	return shadows
}

// enforce decides the hits of r: refused from memory, or taken from what is there,
// or left to wait. What was taken is put back when one of them is refused; exact
// rules, of which nothing is taken without asking, come first, so that what they
// refuse by what is known takes nothing from the others.
func (w *Worker) enforce(now lease.Millis, r *Request) {
	for i := range r.hits {
		if h := &r.hits[i]; w.refusedBefore(now, h) {
			w.deny(now, r, i)
			return
		}
	}
	if !w.takeAll(now, r, true) || !w.takeAll(now, r, false) {
		return
	}
	if r.undecided == 0 {
		w.admit(r)
		return
	}
	if w.Trace != nil {
		r.trace = strings.Clone(TraceParent(w.Trace()))
	}
	r.keepKeys()
	if !w.askAll(now, r) {
		return
	}
	if r.undecided == 0 {
		w.admit(r)
		return
	}
	for i := range r.hits {
		if r.hits[i].state == undecided {
			r.hits[i].policy.counts.Waited++
		}
	}
	r.waiting = len(w.waiting)
	w.waiting = append(w.waiting, r)
}

// takeAll takes the hits of exact rules, or those of the others. False if one of
// them denied the request.
func (w *Worker) takeAll(now lease.Millis, r *Request, exact bool) bool {
	for i := range r.hits {
		h := &r.hits[i]
		if h.policy.exact() != exact {
			continue
		}
		switch w.take(now, h) {
		case lease.Admit:
			h.state = admitted
		case lease.Refuse:
			w.deny(now, r, i)
			return false
		case lease.Wait:
			r.undecided++
		}
	}
	return true
}

// refusedBefore refuses a hit from the cache of denials.
func (w *Worker) refusedBefore(now lease.Millis, h *hit) bool {
	d := h.policy.denials.refuses(h.key.Hash, now, h.cost)
	if d == nil {
		return false
	}
	h.report.Remaining = 0
	h.retry(now, d.retryAt)
	return true
}

// retry notes when a client that is refused should come back.
func (h *hit) retry(now, at lease.Millis) { h.report.Reset = max(at-now, 1) }

// take decides one hit from what the table has.
func (w *Worker) take(now lease.Millis, h *hit) lease.Verdict {
	switch {
	case h.policy.concurrency():
		return w.enter(now, h)
	case h.policy.local():
		return w.takeLocal(now, h)
	}
	p := h.policy
	for range table.Tries {
		e := w.open(p, h.key)
		refused := e.Refused
		denied := e.DeniedNeed > 0 && h.cost-e.Held(&p.terms, now) >= e.DeniedNeed
		h.suspect, h.probes = denied || e.Refused, denied && p.exact()
		d := e.Take(&p.terms, now, h.cost)
		if d.Verdict == lease.Unanswered {
			return w.unanswered(now, h, e, d.Ask)
		}
		w.describe(now, h, e, d.Verdict)
		if !w.changes(h, e, d, refused) {
			if d.Verdict == lease.Refuse {
				w.rememberDenial(now, h, e)
			}
			return d.Verdict
		}
		want, asks := w.askBehind(now, h, e, d.Ask)
		switch p.table.Commit(now) {
		case table.Stored:
			if asks {
				w.gather(now, p, h.key, want)
			}
			if d.Verdict == lease.Refuse {
				w.rememberDenial(now, h, e)
			}
			h.taken = d.Taken
			return d.Verdict
		case table.Full:
			if d.Verdict == lease.Refuse {
				return lease.Refuse
			}
			return lease.Wait // the region knows, whether there is a place or not
		case table.Failed:
			if d.Verdict == lease.Refuse {
				return lease.Refuse
			}
			return w.full(h)
		}
	}
	return lease.Wait
}

// unanswered decides a hit of a key whose asks fail, and asks behind it whether they
// still do.
func (w *Worker) unanswered(now lease.Millis, h *hit, e *table.Entry, asks lease.Asks) lease.Verdict {
	last := e.Back.Status()
	if want, asks := w.askBehind(now, h, e, asks); asks && h.policy.table.Commit(now) == table.Stored {
		w.gather(now, h.policy, h.key, want)
	}
	return w.failGrant(now, h, last)
}

// changes reports whether a decision has changed the entry that is open, which had
// refused requests before or not. Of refusals the first is written, the count of
// others only with what is asked.
func (w *Worker) changes(h *hit, e *table.Entry, d lease.Decision, refused bool) bool {
	if d.Ask != lease.NoAsk && w.mayAsk(h) {
		return true
	}
	switch d.Verdict {
	case lease.Wait:
		return false // what an exact rule asks is claimed when it is asked, see prepare
	case lease.Refuse:
		return !refused
	}
	return true
}

// askBehind prepares an ask for which nobody waits, in the entry that is open.
func (w *Worker) askBehind(now lease.Millis, h *hit, e *table.Entry, asks lease.Asks) (lease.Want, bool) {
	if asks == lease.NoAsk || !w.mayAsk(h) {
		return lease.Want{}, false
	}
	e.Denied += int64(h.policy.denials.forget(h.key.Hash))
	return e.Ask(&h.policy.terms, now, 0, 0, asks), true
}

// mayAsk reports whether an ask for this key could leave now.
func (w *Worker) mayAsk(h *hit) bool {
	return w.asks[h.key.Hash] == nil && len(w.asks) < mostAsks && !h.policy.line.open
}

// describe fills in what the response says about a hit.
func (w *Worker) describe(now lease.Millis, h *hit, e *table.Entry, v lease.Verdict) {
	h.report.Remaining = e.Left + e.Available(now)
	h.report.Reset = max(0, e.Reset-now)
	if v == lease.Refuse {
		h.report.Remaining = 0
		h.report.Reset = e.Retry(&h.policy.terms, now, h.cost)
	}
}

// rememberDenial puts a denial in front of the table, for as long as the slot
// would not do anything else: until somebody may ask, or a little while where an
// answer is on its way.
func (w *Worker) rememberDenial(now lease.Millis, h *hit, e *table.Entry) {
	until, need := e.NextAsk, e.LeastRefused(&h.policy.terms, now)
	if h.cost < need { // what refuses it is that the limit is used up
		until, need = min(until, e.LimitedUntil), h.cost
	}
	if until <= now {
		until = now + whileAsking
	}
	h.policy.denials.remember(h.key.Hash, until, now+h.report.Reset, need)
}

// admit lets a request pass that no rule refuses.
func (w *Worker) admit(r *Request) {
	r.Outcome = Admit
	for i := range r.hits {
		h := &r.hits[i]
		h.policy.counts.Decided[h.decision]++
		r.Degraded = r.Degraded || h.decision >= FailedOpen
	}
}

// deny refuses a request because of its hit i, and puts back what the others took.
func (w *Worker) deny(now lease.Millis, r *Request, i int) {
	h := &r.hits[i]
	h.state = refused
	if h.decision == Allowed {
		h.decision = Denied
	}
	h.policy.counts.Decided[h.decision]++
	r.Outcome, r.Status, r.denier, r.RetryAfter = Deny, 429, i, h.report.Reset
	if h.status != 0 {
		r.Status = h.status
	}
	r.Degraded = h.decision >= FailedOpen
	w.untakeAll(now, r)
}

// untakeAll puts back what a request took.
func (w *Worker) untakeAll(now lease.Millis, r *Request) {
	for j := range r.hits {
		if o := &r.hits[j]; o.state == admitted {
			o.state = refused
			w.untake(now, o)
		}
	}
}

func (w *Worker) untake(now lease.Millis, h *hit) {
	p, taken, period, cost := h.policy, h.taken, h.period, h.cost
	switch {
	case h.slots != nil:
		w.leave(now, h)
	case h.uncounted:
	case p.local():
		w.change(now, p, h.key, func(e *table.Entry) {
			e.Counter, _ = p.limit.Return(e.Counter, w.Wall(now), period, cost)
		})
	default:
		var back [2]lease.Part
		if w.change(now, p, h.key, func(e *table.Entry) { back = e.Untake(&p.terms, taken) }) == table.Stored {
			w.hurryBack(p, h.key, back[0])
			w.hurryBack(p, h.key, back[1])
		}
	}
}

// takeLocal decides a hit of scope: pop, whose counter is in the table itself. Keys
// that find no place share one counter per rule and page.
func (w *Worker) takeLocal(now lease.Millis, h *hit) lease.Verdict {
	p := h.policy
	for range table.Tries {
		e, shared := p.table.OpenShared(h.key)
		v, outcome := w.charge(now, h, e, shared)
		if outcome == table.Full {
			if e = p.table.Join(now); e == nil {
				return w.full(h)
			}
			if v, outcome = w.charge(now, h, e, true); v == lease.Refuse {
				p.table.Commit(now) // so that the next one finds it at once
			}
		}
		switch outcome {
		case table.Stored:
			return v
		case table.Full, table.Failed:
			return w.full(h)
		}
	}
	return w.full(h)
}

// charge decides a hit of scope: pop by the counter that is open, and writes it.
func (w *Worker) charge(now lease.Millis, h *hit, e *table.Entry, shared bool) (lease.Verdict, table.Outcome) {
	ask := limit.Ask{Need: h.cost, Waiting: h.cost, Want: h.cost}
	var d limit.Decision
	e.Counter, d = h.policy.limit.Acquire(e.Counter, w.Wall(now), ask)
	h.report.Remaining, h.report.Reset = d.Remaining, lease.CeilMillis(d.Reset)
	h.decision = Allowed
	if shared {
		h.decision = FullAllowed
	}
	if d.Granted == 0 {
		if shared {
			h.decision = FullDenied
		}
		return w.refuseLocal(now, h, d), table.Stored
	}
	h.period = d.Period
	return lease.Admit, h.policy.table.Commit(now)
}

// refuseLocal refuses a hit of scope: pop. A denial that is charged is written;
// one that costs nothing stands in the cache until it is over.
func (w *Worker) refuseLocal(now lease.Millis, h *hit, d limit.Decision) lease.Verdict {
	retryAt := now + lease.CeilMillis(d.RetryAfter)
	h.retry(now, retryAt)
	if h.policy.limit.Spec().ChargeDenied {
		h.policy.table.Commit(now)
		return lease.Refuse
	}
	h.policy.denials.remember(h.key.Hash, min(retryAt, now+longestLocalDenial), retryAt, h.cost)
	return lease.Refuse
}

// longestLocalDenial bounds how long a denial of scope: pop is not looked at again:
// units may be put back meanwhile.
const longestLocalDenial lease.Millis = 100

// full decides a hit that has no place in the table.
func (w *Worker) full(h *hit) lease.Verdict {
	h.uncounted = true
	if h.policy.rule.OnFailure == lease.FailureAllow {
		h.decision = FullAllowed
		return lease.Admit
	}
	h.decision, h.status = FullDenied, h.policy.rule.DenyStatus
	return lease.Refuse
}
