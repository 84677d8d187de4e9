package edge

import (
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/bridge"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Reply takes the body of a successful answer to a call. Calls that are not known,
// or ended already, are ignored.
func (w *Worker) Reply(now lease.Millis, id uint64, body []byte) {
	c := w.calls[id]
	if c == nil {
		return
	}
	delete(w.calls, id)
	if c.line == nil {
		w.rulesReply(now, body)
		return
	}
	c.line.flying--
	if result := w.read(c, body); result != CallAnswered {
		w.failCall(now, c, result)
	} else {
		w.Counts.Calls[CallAnswered]++
		c.line.answered(c.seq, now-c.sent)
		w.apply(now, c)
	}
	w.flush(now)
}

// read decodes an answer into w.response and checks that it answers the call.
func (w *Worker) read(c *call, body []byte) CallResult {
	switch err := w.response.Decode(body); {
	case err != nil:
		return w.malformed(err.Error())
	case !wire.Spoken(w.response.Protocol):
		return w.otherVersion(w.response.Protocol)
	case len(w.response.Grants) != len(c.items):
		return w.malformed(strconv.Itoa(len(w.response.Grants)) + " grants for " + strconv.Itoa(len(c.items)) + " wants")
	case w.response.Seq != 0 && w.response.Seq != c.seq:
		return w.malformed("it answers another call")
	}
	return CallAnswered
}

func (w *Worker) malformed(what string) CallResult {
	w.AnswerError = "an answer of the region cannot be read: " + what +
		"; make sure that region_cluster leads to weir-regional, with nothing in between that answers for it"
	return CallMalformed
}

func (w *Worker) otherVersion(version uint32) CallResult {
	w.AnswerError = "the region answers in version " + strconv.FormatUint(uint64(version), 10) + " of the quota protocol, this filter speaks " +
		wire.Versions(wire.ProtocolMin, wire.ProtocolMax) + "; " + oneApart
	return CallVersion
}

const oneApart = "run a filter and a weir-regional that are at most one release apart"

// apply takes an answer that fits its call.
func (w *Worker) apply(now lease.Millis, c *call) {
	m := &w.response
	w.heard(c.seq, m.Epoch)
	if m.Holders > 0 {
		w.holders = int(m.Holders)
	}
	w.seeRules(now, m.RulesVersion, m.RulesRevision)
	for i := range c.items {
		switch it, g := &c.items[i], bridge.GrantFromWire(&m.Grants[i], c.items[i].period()); {
		case it.ask != nil && it.ask.holding != nil:
			w.applySlots(now, c.sent, it.ask, g)
		case it.ask != nil:
			w.applyAsk(now, c.sent, it, g)
		case it.report != nil:
			w.applyReport(now, c.sent, it, g)
		}
	}
}

// applyAsk hands a grant out to those who wait, oldest first, and keeps the rest.
func (w *Worker) applyAsk(now, sent lease.Millis, it *item, g lease.Grant) {
	a, want := it.ask, it.want
	g.Granted = min(g.Granted, want.Want)
	spare := g.Granted
	a.repeats++
	queued := len(a.queue)
	for _, v := range a.asked {
		if !v.live() {
			continue
		}
		h := v.of(a)
		verdict := lease.Refuse
		switch {
		case g.Status != lease.OK && g.Status != lease.Denied:
			w.answer(now, v, &h, w.failGrant(now, &h, g.Status))
			continue
		case g.Status == lease.OK && g.Granted == 0 && v.request != nil && v.request.undecided > 1:
			continue // another want of its group was denied, and decides it
		case v.cost <= spare && g.StartsIn == 0:
			spare -= v.cost
			h.taken.Parts[0] = lease.Part{Units: v.cost, Lease: g.Lease, Expiry: sent + g.TTL}
			verdict = lease.Admit
		case w.mayFit(now, a, &g, spare+g.Remaining, v.cost):
			a.queue = append(a.queue, v)
			continue
		}
		h.answeredBy(&g, spare, verdict)
		w.answer(now, v, &h, verdict)
	}
	if len(a.queue) == queued {
		a.repeats = 0
	}
	w.keep(now, sent, a, want, g, spare)
	w.again(now, a)
}

// mayFit reports whether a request that a reply does not admit is asked for again: so much
// is left by the reply, and the key holds units that the want did not offer, or the want
// was for those of other requests. That a denied need was charged, or others of a group
// were decided with it, cannot be undone.
func (w *Worker) mayFit(now lease.Millis, a *ask, g *lease.Grant, left, cost int64) bool {
	t := &a.policy.terms
	final := a.grouped || a.repeats > mostRepeats || g.Status == lease.Denied && t.ChargesDenied
	if final || t.Consistency == lease.Exact {
		return false
	}
	held := w.open(a.policy, a.key).Held(t, now)
	return (held > 0 || g.Granted > 0) && cost <= left+held
}

// keep stores what a grant says, and what of it is spare, in the key's slot.
func (w *Worker) keep(now, sent lease.Millis, a *ask, want lease.Want, g lease.Grant, spare int64) {
	p, jitter := a.policy, w.jitter()
	var rest lease.Part
	outcome := w.change(now, p, a.key, func(e *table.Entry) {
		if g.Status == lease.OK && g.Granted == 0 && want.Need > 0 {
			e.PassOver(&p.terms, now, sent, want, g)
			return
		}
		rest = e.Apply(&p.terms, now, sent, want, g, spare, jitter)
	})
	switch outcome {
	case table.Stored:
	case table.Full:
		rest = lease.Part{Units: spare, Lease: g.Lease}
	default:
		rest = lease.Part{}
	}
	if p.exact() { // units of requests that have gone, or were refused by another rule
		w.hurryBack(p, a.key, rest)
	} else {
		w.giveBack(p, a.key, rest)
	}
	a.policy.denials.forget(a.key.Hash)
	if outcome == table.Full && g.Status == lease.Denied { // nobody else remembers it
		p.denials.remember(a.key.Hash, now+max(g.AskAfter, 1), now+max(g.RetryAfter, 1), max(want.Need, 1))
	}
}

// of returns the hit that waits, with the ask's own copy of its key: the request's
// is gone by now.
func (v *waiter) of(a *ask) hit {
	h := hit{policy: a.policy, cost: v.cost}
	if v.request != nil {
		h = v.request.hits[v.hit]
	}
	h.key = a.key
	return h
}

// answeredBy fills in what the response says.
func (h *hit) answeredBy(g *lease.Grant, spare int64, v lease.Verdict) {
	h.report.Remaining, h.report.Reset = g.Remaining+spare, g.Reset
	if v == lease.Refuse {
		h.report.Remaining, h.report.Reset = 0, h.policy.terms.RetryAfter(g, h.cost)
	}
}

// answer ends a wait.
func (w *Worker) answer(now lease.Millis, v waiter, h *hit, verdict lease.Verdict) {
	if v.request == nil {
		h.policy.countShadow(verdict)
		w.leave(now, h) // its request has gone on, and nobody would
		return
	}
	r := v.request
	h.key = r.hits[v.hit].key
	r.hits[v.hit] = *h
	if !w.decided(now, r, v.hit, verdict) || !w.resume(now, r) {
		w.finish(now, r)
	} else if r.undecided == 0 {
		w.admit(r)
		w.finish(now, r)
	}
}

// finish takes a request that waited and has a verdict out of those that wait.
func (w *Worker) finish(now lease.Millis, r *Request) {
	w.unwait(r)
	r.Waited = now - r.arrived
	w.Decided = append(w.Decided, r)
}

func (w *Worker) unwait(r *Request) {
	last := len(w.waiting) - 1
	if r.waiting > last || w.waiting[r.waiting] != r {
		return
	}
	w.waiting[r.waiting] = w.waiting[last]
	w.waiting[r.waiting].waiting = r.waiting
	w.waiting[last] = nil
	w.waiting = w.waiting[:last]
}

// End ends a request, however it ended: slots come back, and an answer that is
// still to come finds nobody.
func (w *Worker) End(now lease.Millis, r *Request) {
	if r.Outcome == Wait {
		w.unwait(r)
		r.Outcome = Deny
		w.untakeAll(now, r)
	}
	for i := range r.hits {
		w.leave(now, &r.hits[i])
	}
	for i := range r.shadows {
		w.leave(now, &r.shadows[i])
	}
	r.serial++
}

// applyReport clears what the region has acknowledged.
func (w *Worker) applyReport(now, sent lease.Millis, it *item, g lease.Grant) {
	r, want := it.report, it.want
	if want.Overdrawn > 0 && g.Status == lease.UnknownRule {
		w.unknown(now, r.policy, r.key)
	}
	jitter := w.jitter()
	w.change(now, r.policy, r.key, func(e *table.Entry) {
		e.Apply(&r.policy.terms, now, sent, want, g, 0, jitter)
	})
}
