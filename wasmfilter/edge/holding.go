package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// holding is this worker's part of one key of a concurrency limit. Every worker is a
// holder of its own above, named by its number, and counts the streams that began
// with it. But what one of them holds another may use: all show in a table that they
// share what they hold and what they use, and a stream may begin while less is used
// than held. Of what a worker holds it gives back what nobody uses. What a worker
// that dies leaves in the table counts until its ttl is over, there as above.
//
// Scope: pop: nobody holds anything, and a stream may begin while less is used than
// the limit.
type holding struct {
	lease.Holding
	policy *policy
	key    table.Key
	inUse  int64
	gave   lease.Millis // see table.Member
	owes   lease.Millis // until then the tier above may not have heard what it gave back
	denied lease.Millis // when it was last denied a slot
	shown  lease.Millis // until then others count what it uses; 0: they lack the newest
	others table.Others // as the table said last
}

// mostHoldings bounds the keys with slots in use or in reserve. More share those of
// one key per rule.
const mostHoldings = 1 << 16

// refusedHere is after how long who found no slot in the PoP should come back.
const refusedHere lease.Millis = 10

// may is how many slots the tier above lets the worker hold now.
func (hd *holding) may(now lease.Millis) int64 {
	if now < hd.Until {
		return hd.May
	}
	return 0
}

// free is how many slots of the key the PoP has left; negative if more are in use.
func (hd *holding) free(now lease.Millis) int64 {
	held := hd.may(now) + hd.others.May
	if hd.policy.local() {
		held = hd.policy.limit.Spec().Count
	}
	return held - hd.inUse - hd.others.Uses
}

// needed is how many slots the PoP needs this worker to hold: what is in use and the
// others do not hold. Of what nobody holds, each answers for its own streams.
func (hd *holding) needed(now lease.Millis) int64 {
	lacking := hd.inUse + hd.others.Uses - hd.others.May
	return max(0, min(lacking, max(hd.inUse, hd.may(now))))
}

func (hd *holding) member() table.Member {
	return table.Member{Uses: hd.inUse, May: hd.May, Until: hd.Until, Seen: hd.shown, Gave: hd.gave}
}

func (hd *holding) ttl() lease.Millis { return millis(hd.policy.limit.Spec().LeaseTTL) }

// share lets change decide by what the other workers hold and use, which is in
// hd.others, and shows them hd as it is then, if change returns true. change may be
// called several times; what it did the last time stands if the outcome is Stored.
// Otherwise nothing happened.
func (w *Worker) share(now lease.Millis, hd *holding, change func() bool) (outcome table.Outcome) {
	pool, before := w.slots, *hd
	if hd.policy.shadow() {
		pool = w.shadowSlots
	}
	for range table.Tries {
		*hd = before
		hd.others = pool.Open(now, hd.key, w.number)
		if !change() {
			return table.Stored
		}
		hd.shown = now + hd.ttl()
		if outcome = pool.Commit(now, hd.key, w.number, hd.member()); outcome != table.Raced {
			break
		}
	}
	if outcome == table.Full && !hd.policy.local() {
		return table.Stored // alone: others do not see what it holds, nor use it
	}
	if outcome != table.Stored {
		*hd = before
	}
	return outcome
}

// show shows the others what the worker holds and uses. If that fails now, the next
// tick does it.
func (w *Worker) show(now lease.Millis, hd *holding) {
	if w.share(now, hd, func() bool { return true }) != table.Stored {
		hd.shown = 0
	}
}

// takeSlots takes slots for a stream, if that many are free. least is how many the PoP may
// use whatever it holds.
func (w *Worker) takeSlots(now lease.Millis, hd *holding, cost, least int64) (taken bool, outcome table.Outcome) {
	outcome = w.share(now, hd, func() bool {
		free := max(hd.free(now), least-hd.inUse-hd.others.Uses)
		if taken = free >= cost; taken {
			hd.inUse += cost
		}
		return taken
	})
	return taken && outcome == table.Stored, outcome
}

// enter decides a hit of a concurrency rule.
func (w *Worker) enter(now lease.Millis, h *hit) lease.Verdict {
	hd := w.holdingOf(h)
	h.suspect = hd.NextAsk > 0
	taken, outcome := w.takeSlots(now, hd, h.cost, 0)
	h.report.Remaining = max(0, hd.free(now))
	switch {
	case taken:
		h.slots = hd
		return lease.Admit
	case outcome != table.Stored && h.policy.local():
		return w.enterShared(now, h)
	case h.policy.local():
		h.retry(now, now+refusedHere)
		return lease.Refuse
	case now < hd.NextAsk && hd.others.Gave <= hd.denied:
		h.retry(now, hd.NextAsk)
		return lease.Refuse
	case hd.Back.Off(now):
		return w.failGrant(now, h, hd.Back.Status())
	}
	return lease.Wait
}

// enterShared decides a hit of scope: pop whose key finds no place in the table: all
// such keys of a rule share the slots of one.
func (w *Worker) enterShared(now lease.Millis, h *hit) lease.Verdict {
	if h.key.Hash == h.policy.id {
		return w.full(h)
	}
	h.key = h.policy.shared()
	v := w.enter(now, h)
	if h.decision = FullDenied; v == lease.Admit {
		h.decision = FullAllowed
	}
	return v
}

// shared is the key that keys of the rule share which find no place.
func (p *policy) shared() table.Key { return table.Key{Hash: p.id, Rule: uint32(p.id)} }

// holdingOf returns the holding of the hit's key. If there are too many, the hit goes
// by the key that is shared.
func (w *Worker) holdingOf(h *hit) *holding {
	hd := w.holdings[h.key.Hash]
	if hd == nil && len(w.holdings) >= mostHoldings {
		h.key = h.policy.shared()
		hd = w.holdings[h.key.Hash]
	}
	if hd == nil {
		key := h.key
		key.Text = append([]byte(nil), key.Text...)
		hd = &holding{key: key}
		w.holdings[key.Hash] = hd
	}
	hd.policy = h.policy // of the newest rules
	return hd
}

// leave gives the slots of a hit back to the PoP, at once.
func (w *Worker) leave(now lease.Millis, h *hit) {
	hd := h.slots
	if hd == nil {
		return
	}
	h.slots = nil
	hd.inUse -= h.cost
	w.show(now, hd)
}

// failSlots decides a hit of a concurrency rule whose tier above does not answer.
// Its slots count all the same, and are stated when there is an answer again.
func (w *Worker) failSlots(now lease.Millis, h *hit, by lease.OnFailure) lease.Verdict {
	p, hd := h.policy, w.holdingOf(h)
	switch by {
	case lease.FailureDeny:
		return h.failClosed()
	case lease.FailureAllow:
		h.decision = FailedOpen
		hd.inUse += h.cost
		w.show(now, hd)
	default:
		if taken, _ := w.takeSlots(now, hd, h.cost, w.localShare(p)); !taken {
			h.decision, h.report.Remaining, h.report.Reset = LocalDenied, 0, 1000
			return lease.Refuse
		}
		h.decision = LocalAllowed
	}
	h.slots = hd
	return lease.Admit
}

// stateSlots makes the want of a holding, when it is sent: what the PoP needs of it
// and what it asks for beyond. What nobody needs is gone from here on.
func (w *Worker) stateSlots(now lease.Millis, a *ask) lease.SlotWant {
	hd, t := a.holding, &a.policy.terms
	var hw lease.SlotWant
	outcome := w.share(now, hd, func() bool {
		may := hd.may(now)
		hw = hd.Ask(t, now, hd.needed(now), a.want.Need, a.want.Waiting)
		gives := hd.May < may
		if hd.May = min(hd.May, may); gives {
			hd.gave, hd.owes = now+t.Timeout, now+hd.ttl()
		}
		return gives
	})
	if outcome != table.Stored { // the others count on all of it
		may := hd.may(now)
		hw = lease.SlotWant{Holding: max(may, hd.needed(now)), Need: a.want.Need}
		hw.Want = hw.Holding + a.want.Waiting
		hd.Asked, hd.Asking = now, true
	}
	return hw
}

// applySlots takes what the granter says a worker may hold.
func (w *Worker) applySlots(now, sent lease.Millis, a *ask, g lease.Grant) {
	hd := a.holding
	hd.Apply(&hd.policy.terms, now, sent, g, w.jitter())
	if g.Status == lease.OK || g.Status == lease.Denied {
		hd.gave, hd.owes = min(hd.gave, now), 0
	}
	w.show(now, hd)
	again := false
	if g.Status == lease.Denied {
		hd.denied = now
		again = hd.others.Gave >= sent && a.repeats < mostRepeats
	}
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
		case v.request == nil:
			if hd.free(now) >= h.cost {
				verdict = lease.Admit
			}
		default:
			if taken, _ := w.takeSlots(now, hd, h.cost, 0); taken {
				verdict, h.slots = lease.Admit, hd
			} else if again {
				a.queue = append(a.queue, v)
				continue
			}
		}
		h.answeredBy(&g, max(0, hd.free(now)), verdict)
		w.answer(now, v, &h, verdict)
	}
	if again {
		a.repeats++
		hd.NextAsk = 0
	} else {
		a.repeats = 0
	}
	w.again(now, a)
}

// mostRepeats is how often a worker asks again, at once, for a request that was denied
// while another worker gave slots back: which of the two the tier above read first is
// not known.
const mostRepeats = 3

// renewSlots asks for the holdings that are due, shows what they use to the others
// before that is forgotten, and forgets those that hold nothing.
func (w *Worker) renewSlots(now lease.Millis) {
	for hash, hd := range w.holdings {
		p, may := hd.policy, hd.may(now)
		if hd.shown == 0 || hd.inUse+may > 0 && now >= hd.shown-hd.ttl()/2 {
			w.show(now, hd)
		}
		lately := now < hd.Asked+p.terms.Interval || p.local() || p.line.open || hd.Back.Off(now)
		switch {
		case w.asks[hash] != nil:
		case w.rules == nil || w.rules.byID[uint32(p.id)] == nil: // its rule is gone
			if hd.inUse == 0 {
				delete(w.holdings, hash)
			}
		case now < hd.owes:
			if !lately { // the answer was lost
				w.gather(now, p, hd.key, lease.Want{})
			}
		case hd.inUse == 0 && may == 0 && hd.shown > 0 && now >= hd.NextAsk && !hd.Back.Matters(now):
			delete(w.holdings, hash)
		case lately, may == hd.inUse && now < hd.Until-hd.TTL/2:
		default:
			w.share(now, hd, func() bool { return false }) // look
			if hd.Due(&p.terms, now, hd.needed(now)) {
				w.gather(now, p, hd.key, lease.Want{})
			}
		}
	}
}
