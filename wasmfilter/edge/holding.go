package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// holding is this worker's part of one key of a concurrency limit. Every worker
// is a holder of its own, named by its number, and streams end where they began;
// so nothing about slots has to be shared, and the slots of a worker that dies
// lapse above.
type holding struct {
	lease.Holding
	policy *policy
	key    table.Key
	inUse  int64
}

// mostHoldings bounds the keys with slots in use or in reserve. One more takes its
// rule's on_failure.
const mostHoldings = 1 << 16

// enter decides a hit of a concurrency rule.
func (w *Worker) enter(now lease.Millis, h *hit) lease.Verdict {
	hd := w.holdingOf(h)
	if hd == nil {
		return w.full(h)
	}
	v := hd.Enter(now, hd.inUse, h.cost)
	if v == lease.Wait && h.policy.local() {
		room := false
		if v, room = w.holdHere(now, hd, h.cost); !room {
			return w.full(h)
		}
	}
	if v == lease.Admit {
		hd.inUse += h.cost
		h.slots = hd
	}
	h.report.Remaining = max(0, hd.May-hd.inUse)
	if v == lease.Refuse {
		h.retry(now, hd.NextAsk)
	}
	return v
}

// holdingOf returns the holding of the hit's key, nil if there are too many.
func (w *Worker) holdingOf(h *hit) *holding {
	hd := w.holdings[h.key.Hash]
	if hd == nil && len(w.holdings) < mostHoldings {
		key := h.key
		key.Text = append([]byte(nil), key.Text...)
		hd = &holding{key: key}
		w.holdings[key.Hash] = hd
	}
	if hd != nil {
		hd.policy = h.policy // of the newest rules
	}
	return hd
}

// leave gives the slots of a hit back.
func (w *Worker) leave(h *hit) {
	if h.slots != nil {
		h.slots.inUse -= h.cost
		h.slots = nil
	}
}

// failSlots decides a hit of a concurrency rule whose tier above does not answer.
// Its slots count all the same, and are stated when there is an answer again.
func (w *Worker) failSlots(h *hit) lease.Verdict {
	p, hd := h.policy, w.holdingOf(h)
	if hd == nil {
		return w.full(h)
	}
	switch {
	case p.rule.OnFailure == rule.FailureDeny:
		return h.failClosed()
	case p.rule.OnFailure == rule.FailureAllow:
		h.decision = FailedOpen
	case hd.inUse+h.cost > w.share(p):
		h.decision, h.report.Remaining, h.report.Reset = LocalDenied, 0, 1000
		return lease.Refuse
	default:
		h.decision = LocalAllowed
	}
	hd.inUse += h.cost
	h.slots = hd
	return lease.Admit
}

// state makes the want of a holding, when it is sent.
func (hd *holding) state(now lease.Millis, want lease.Want, worker uint64, m *wire.Want) {
	hw := hd.Ask(&hd.policy.terms, now, hd.inUse, want.Need, want.Waiting)
	m.Holding = uint64(hw.Holding)
	m.Want = uint64(max(hw.Want, want.Waiting))
	m.Lease = worker
	m.Denied = 0
}

// applySlots takes what the granter says a worker may hold.
func (w *Worker) applySlots(now, sent lease.Millis, a *ask, g lease.Grant) {
	hd := a.holding
	hd.Apply(now, sent, g)
	for _, v := range a.asked {
		if !v.live() {
			continue
		}
		h := v.of(a)
		verdict := lease.Refuse
		switch {
		case g.Status != lease.OK && g.Status != lease.Denied:
			verdict = w.fail(now, &h)
		case hd.inUse+h.cost <= hd.May:
			verdict = lease.Admit
			if v.request != nil {
				hd.inUse += h.cost
				h.slots = hd
			}
		}
		h.answeredBy(g, max(0, hd.May-hd.inUse))
		w.answer(now, v, &h, verdict)
	}
	w.again(now, a)
}

// renewSlots asks for the holdings that are due, and forgets those that hold
// nothing.
func (w *Worker) renewSlots(now lease.Millis) {
	for hash, hd := range w.holdings {
		switch {
		case w.asks[hash] != nil:
		case hd.inUse == 0 && (hd.May == 0 || now >= hd.Until) && now >= hd.NextAsk:
			delete(w.holdings, hash)
		case !hd.Due(&hd.policy.terms, now, hd.inUse):
		case hd.policy.local():
			w.holdHere(now, hd, 0)
		case !hd.policy.line.open:
			w.gather(now, hd.policy, hd.key, lease.Want{})
		}
	}
}
