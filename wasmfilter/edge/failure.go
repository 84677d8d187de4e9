package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// fail decides a hit whose tier above does not answer: what was denied stays
// denied, anything else goes by the rule's on_failure.
func (w *Worker) fail(now lease.Millis, h *hit) lease.Verdict {
	return w.failBy(now, h, h.policy.rule.OnFailure)
}

// failGrant decides a hit that was answered, and not decided. A granter that does not
// have the rule is not away: it has other rules, and the next one may have ours. The
// rule goes on to hold, by this process's share of it, whatever on_failure says.
func (w *Worker) failGrant(now lease.Millis, h *hit, s lease.Status) lease.Verdict {
	if s == lease.UnknownRule {
		return w.failBy(now, h, lease.FailureLocal)
	}
	return w.fail(now, h)
}

func (w *Worker) failBy(now lease.Millis, h *hit, by lease.OnFailure) lease.Verdict {
	p := h.policy
	if p.concurrency() {
		return w.failSlots(now, h, by)
	}
	for range table.Tries {
		e := w.open(p, h.key)
		if e.Remembered(now, h.cost) {
			h.decision = Denied
			h.report.Remaining = 0
			h.report.Reset = e.Retry(&p.terms, now, h.cost)
			p.denials.remember(h.key.Hash, now+whileAsking, now+h.report.Reset, h.cost)
			return lease.Refuse
		}
		owed := e.Overdrawn
		if w.failure(now, h, e, by) == lease.Refuse {
			return lease.Refuse
		}
		owed = e.Overdrawn - owed
		switch p.table.Commit(now) {
		case table.Stored:
			h.taken = lease.Taken{Overdrawn: h.cost, Unowed: h.cost - owed, Local: h.decision == LocalAllowed}
			return lease.Admit
		case table.Full, table.Failed:
			return w.unplaced(h)
		}
	}
	return w.unplaced(h)
}

// unplaced decides a hit whose tier above does not answer and whose key finds no
// place: what is admitted cannot be reported, and a share cannot be counted.
func (w *Worker) unplaced(h *hit) lease.Verdict {
	if h.decision == FailedOpen {
		h.uncounted = true
		w.Counts.Unreported += uint64(h.cost)
		return lease.Admit
	}
	h.decision, h.status = FullDenied, h.policy.rule.DenyStatus
	return lease.Refuse
}

// failure applies on_failure to the entry that is open.
func (w *Worker) failure(now lease.Millis, h *hit, e *table.Entry, by lease.OnFailure) lease.Verdict {
	p := h.policy
	switch by {
	case lease.FailureAllow:
		h.decision = FailedOpen
		e.Overdraw(&p.terms, h.cost)
		return lease.Admit
	case lease.FailureDeny:
		return h.failClosed()
	}
	ends := w.windowEnd(now, p)
	h.decision = LocalAllowed
	h.report.Reset = ends - now
	if e.TakeLocal(&p.terms, now, ends, w.localShare(p), h.cost) {
		return lease.Admit
	}
	h.decision, h.report.Remaining = LocalDenied, 0
	return lease.Refuse
}

func (h *hit) failClosed() lease.Verdict {
	h.decision, h.status = FailedClosed, h.policy.rule.DenyStatus
	h.report.Remaining, h.report.Reset = 0, 1000
	return lease.Refuse
}

// localShare is what this process enforces on its own of a limit.
func (w *Worker) localShare(p *policy) int64 {
	return lease.Share(p.limit.Spec().Count, w.holders, p.rule.ExpectedHolders)
}

// windowEnd is when the window of a limit ends, by the time of day.
func (w *Worker) windowEnd(now lease.Millis, p *policy) lease.Millis {
	return now + p.period - millis(w.Wall(now))%p.period
}

// Failed takes a call that got no answer that could be read.
func (w *Worker) Failed(now lease.Millis, id uint64, result CallResult) {
	c := w.calls[id]
	if c == nil {
		return
	}
	delete(w.calls, id)
	if c.line == nil {
		w.Counts.Calls[result]++
		return
	}
	c.line.flying--
	w.failCall(now, c, result)
	w.flush(now)
}

// failCall decides all who wait for a call, or for one that would follow it on a
// line that is open now. What was given back with it is lost, and never sent again. That
// a call had only the rest of somebody's time, and did not end within it, says nothing of
// the region.
func (w *Worker) failCall(now lease.Millis, c *call, result CallResult) {
	w.Counts.Calls[result]++
	if !c.late || result != CallTimedOut {
		c.line.failed(now, c.seq)
	}
	for i := range c.items {
		it := &c.items[i]
		w.Counts.Lost += uint64(it.want.Unused)
		if it.ask == nil {
			continue
		}
		if it.ask.holding != nil {
			it.ask.holding.Asking = false
		}
		w.failWaiters(now, it.ask)
		w.again(now, it.ask)
	}
	if c.line.open {
		w.failGathered(now, c.line)
	}
}

// failWaiters decides those whom an ask was for.
func (w *Worker) failWaiters(now lease.Millis, a *ask) {
	for _, v := range a.asked {
		if v.live() {
			h := v.of(a)
			w.answer(now, v, &h, w.fail(now, &h))
		}
	}
	a.asked = a.asked[:0]
}

// failGathered decides those who wait for calls that will not be made.
func (w *Worker) failGathered(now lease.Millis, l *line) {
	gathered := l.gathered
	l.gathered, l.urgent = nil, false
	for _, a := range gathered {
		a.asked, a.queue = append(a.asked, a.queue...), a.queue[:0]
		w.failWaiters(now, a)
		w.endAsk(a)
	}
}

// expire decides the requests that have waited for as long as they may.
func (w *Worker) expire(now lease.Millis) {
	for i := 0; i < len(w.waiting); {
		r := w.waiting[i]
		if now < r.deadline {
			i++
			continue
		}
		w.expireOne(now, r)
	}
}

// expireOne decides what is undecided of a request by on_failure.
func (w *Worker) expireOne(now lease.Millis, r *Request) {
	for i := range r.hits {
		h := &r.hits[i]
		if h.state == undecided && !w.decided(now, r, i, w.fail(now, h)) {
			w.finish(now, r)
			return
		}
	}
	w.admit(r)
	w.finish(now, r)
}

// decideShadows evaluates the shadow rules of a request that passes, for the
// counters only.
func (w *Worker) decideShadows(now lease.Millis, r *Request) {
	for i := range w.matches.Hits {
		m := &w.matches.Hits[i]
		p := &w.rules.byRule[m.Rule][m.Variant]
		if !p.shadow() {
			continue
		}
		h := hit{policy: p, key: p.key(w.seed, m.Key), cost: m.Cost}
		verdict := lease.Refuse
		if !w.refusedBefore(now, &h) {
			verdict = w.take(now, &h)
		}
		if verdict == lease.Wait && p.line.open {
			verdict = lease.Admit
		} else if verdict == lease.Wait {
			verdict = w.wait(now, &h, waiter{cost: h.cost})
		}
		if verdict != lease.Wait {
			p.countShadow(verdict)
		}
		if h.slots != nil {
			r.shadows = append(r.shadows, h)
		}
	}
}

// countShadow counts what a shadow rule would have done.
func (p *policy) countShadow(v lease.Verdict) {
	d := ShadowAllowed
	if v == lease.Refuse {
		d = ShadowDenied
	}
	p.counts.Decided[d]++
}
