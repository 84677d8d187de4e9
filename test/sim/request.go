package sim

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Part is what a request costs on one rule.
type Part struct {
	Rule *Rule
	Key  string
	Cost int64
}

// request is a client's, at one holder.
type request struct {
	parts    []Part
	entries  []*entry
	verdicts []lease.Verdict
	taken    []lease.Taken
	arrived  limit.Micros
	waited   bool
	done     bool
	admitted bool
	failed   bool // nobody answered in time
}

// alone reports whether one rule decides the request.
func (r *request) alone() bool { return len(r.parts) == 1 }

// costOf is what a request of one part costs on its entry.
func (r *request) costOf(e *entry) int64 {
	for i := range r.entries {
		if r.entries[i] == e {
			return r.parts[i].Cost
		}
	}
	return 0
}

// request is a client's request, now.
func (h *holder) request(parts ...Part) *request {
	r := &request{parts: parts, arrived: h.w.Now}
	h.w.ref.offered(h, parts)
	if wait := h.paused - h.w.Now; wait > 0 {
		h.w.after(wait, func() { h.decide(r) })
	} else {
		h.decide(r)
	}
	return r
}

// decide takes what a request needs, all or nothing, and asks for what is missing.
func (h *holder) decide(r *request) {
	n := len(r.parts)
	r.entries, r.verdicts, r.taken = make([]*entry, n), make([]lease.Verdict, n), make([]lease.Taken, n)
	asks := make([]lease.Asks, n)
	verdict := lease.Admit
	for i, p := range r.parts {
		e := h.entry(p.Rule, p.Key)
		if e == nil {
			h.fail(r)
			return
		}
		d := h.take(e, p.Cost)
		if d.Verdict == lease.Unanswered {
			d.Verdict = lease.Refuse
			if h.failPart(e, p) {
				d.Verdict = lease.Admit
			}
		}
		r.entries[i], r.verdicts[i], r.taken[i], asks[i] = e, d.Verdict, d.Taken, d.Ask
		if verdict != lease.Refuse && d.Verdict != lease.Admit {
			verdict = d.Verdict
		}
	}
	switch verdict {
	case lease.Admit:
		h.admit(r)
	case lease.Refuse:
		h.untake(r)
		h.refuse(r)
	case lease.Wait:
		h.wait(r)
	}
	for i, behind := range asks {
		if behind != lease.NoAsk {
			h.askFor(r.entries[i], behind)
		}
	}
}

func (h *holder) take(e *entry, cost int64) lease.Decision {
	now := h.now()
	before := e.slot
	if s := &e.slot; h.w.Fault == DeniesItsOwn && now < s.NextAsk && s.DeniedNeed > 0 && cost >= s.DeniedNeed && s.Available(now) < cost {
		return lease.Decision{Verdict: lease.Refuse}
	}
	d := e.slot.Take(&e.rule.Terms, now, cost)
	h.w.ref.owes(e, before.Overdrawn)
	h.w.ref.took(h, e, d.Taken)
	if h.w.Fault == ParksTakes && d.Verdict == lease.Admit && h.w.chance(0.2) {
		e.slot.Lots = before.Lots
		h.w.after(2*limit.Millisecond, func() { e.slot.Take(&e.rule.Terms, h.now(), cost) })
	}
	return d
}

// untake puts back what a request took that another rule refuses.
func (h *holder) untake(r *request) {
	for i, e := range r.entries {
		if e == nil || r.verdicts[i] != lease.Admit {
			continue
		}
		h.w.ref.putBack(h, e, r.taken[i])
		before := e.slot.Overdrawn
		for _, p := range e.slot.Untake(&e.rule.Terms, r.taken[i]) {
			h.giveBack(e, p)
		}
		h.w.ref.owes(e, before)
		r.taken[i], r.verdicts[i] = lease.Taken{}, lease.Wait
	}
}

// wait makes a request wait. One that needs several rules' answers takes no turn
// in a queue: it asks for all of them in one call, or comes back when one of them
// has been asked about.
func (h *holder) wait(r *request) {
	if !r.waited {
		r.waited = true
		h.w.ref.waits(r)
		life := h.life
		left := r.arrived + limit.Micros(r.parts[0].Rule.Terms.Timeout)*limit.Millisecond - h.w.Now
		h.w.after(left, func() {
			if !r.done && life == h.life {
				h.fail(r)
			}
		})
	}
	if len(r.parts) == 1 {
		e := r.entries[0]
		e.queue = append(e.queue, r)
		h.askFor(e, lease.NoAsk)
		return
	}
	for i, e := range r.entries {
		if r.verdicts[i] == lease.Wait && e.ask != nil {
			h.untake(r)
			e.queue = append(e.queue, r)
			return
		}
	}
	h.askGroup(r)
}

// fail decides on a request that nobody answered in time.
func (h *holder) fail(r *request) {
	r.failed = true
	ok := len(r.entries) == len(r.parts)
	for i, p := range r.parts {
		if !ok || r.entries[i] == nil {
			ok = ok && p.Rule.OnFailure == Allow
			continue
		}
		if r.verdicts[i] != lease.Admit {
			ok = ok && h.failPart(r.entries[i], p)
		}
	}
	h.w.ref.failed(r, ok)
	if ok {
		h.admit(r)
	} else {
		h.untake(r)
		h.refuse(r)
	}
}

// failPart is one rule's on_failure.
func (h *holder) failPart(e *entry, p Part) bool {
	before := e.slot.Overdrawn
	defer func() { h.w.ref.owes(e, before) }()
	switch {
	case e.slot.Remembered(h.now(), p.Cost):
		h.w.ref.remembered++
		return false
	case p.Rule.OnFailure == Allow:
		e.slot.Overdraw(&p.Rule.Terms, p.Cost)
	case p.Rule.OnFailure == Local:
		share := lease.Share(p.Rule.Terms.Capacity, len(h.w.holders), 1)
		period := lease.Millis(p.Rule.Limit.Spec().Period / limit.Millisecond)
		ends := (h.now()/period + 1) * period
		if !e.slot.TakeLocal(&p.Rule.Terms, h.now(), ends, share, p.Cost) {
			return false
		}
	default:
		return false
	}
	h.w.ref.degraded(h, e, p.Cost)
	return true
}

func (h *holder) admit(r *request) {
	for i, e := range r.entries {
		if r.verdicts[i] == lease.Admit {
			h.w.ref.admitTaken(h, e, r.taken[i])
		}
	}
	h.finish(r, true)
}

func (h *holder) refuse(r *request) { h.finish(r, false) }

func (h *holder) finish(r *request, admitted bool) {
	r.done, r.admitted = true, admitted
	h.w.ref.finished(r)
}
