package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// fail decides a hit whose tier above does not answer: what was denied stays
// denied, anything else goes by the rule's on_failure.
func (w *Worker) fail(now lease.Millis, h *hit) lease.Verdict {
	p := h.policy
	if p.concurrency() {
		return w.failSlots(h)
	}
	for range table.Tries {
		e := w.open(p, h.key)
		if e.Remembered(now, h.cost) {
			h.decision = Denied
			h.report.Remaining = 0
			h.retry(now, max(e.RetryAt, now+1))
			p.denials.remember(h.key.Hash, now+whileAsking, now+h.report.Reset, h.cost)
			return lease.Refuse
		}
		if w.failure(now, h, e) == lease.Refuse {
			return lease.Refuse
		}
		switch p.table.Commit(now) {
		case table.Stored:
			h.taken = lease.Taken{Overdrawn: h.cost, Local: h.decision == LocalAllowed}
			return lease.Admit
		case table.Full, table.Failed:
			return w.full(h)
		}
	}
	return w.full(h)
}

// failure applies on_failure to the entry that is open.
func (w *Worker) failure(now lease.Millis, h *hit, e *table.Entry) lease.Verdict {
	p := h.policy
	switch p.rule.OnFailure {
	case rule.FailureAllow:
		h.decision = FailedOpen
		e.Overdraw(&p.terms, h.cost)
		return lease.Admit
	case rule.FailureDeny:
		return h.failClosed()
	}
	ends := w.windowEnd(now, p)
	h.decision = LocalAllowed
	h.report.Reset = ends - now
	if e.TakeLocal(&p.terms, now, ends, w.share(p), h.cost) {
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

// share is what this process enforces on its own of a limit.
func (w *Worker) share(p *policy) int64 {
	holders := w.holders
	if holders == 0 {
		holders = int(p.rule.ExpectedHolders)
	}
	return lease.Share(p.limit.Spec().Count, holders)
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
// line that is open now. What was given back with it is lost, and never sent again.
func (w *Worker) failCall(now lease.Millis, c *call, result CallResult) {
	w.Counts.Calls[result]++
	c.line.failed(now, result == CallTimedOut && !c.short)
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
		switch {
		case verdict != lease.Wait:
			p.countShadow(verdict)
		case p.line.open || !w.wait(now, p, h.key, waiter{cost: h.cost}):
			p.countShadow(lease.Admit)
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
