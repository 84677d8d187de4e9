package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// refusedHere is after how long a client that found no slot in the PoP should come
// back.
const refusedHere lease.Millis = 10

// enter decides a hit of a concurrency rule.
func (d *decider) enter(now lease.Millis, h *hit) lease.Verdict {
	hd := d.slots.of(h)
	h.suspect = hd.NextAsk > 0
	taken, outcome := d.slots.take(now, hd, h.cost, 0)
	h.quota.Remaining = max(0, hd.free(now))
	switch {
	case taken:
		h.slots = hd
		return lease.Admit
	case outcome != table.Stored && h.policy.local:
		return d.enterShared(now, h)
	case h.policy.local:
		h.retry(now, now+refusedHere)
		return lease.Refuse
	case now < hd.NextAsk && hd.others.Gave <= hd.denied:
		h.retry(now, hd.NextAsk)
		return lease.Refuse
	case hd.Back.Off(now):
		return d.failAnswered(now, h, hd.Back.Status())
	}
	return lease.Wait
}

// enterShared decides a hit of scope: pop whose key finds no place in the pool: all
// such keys of a rule share the slots of one.
func (d *decider) enterShared(now lease.Millis, h *hit) lease.Verdict {
	if h.key.Hash == h.policy.id {
		return h.withoutPlace()
	}
	h.key = h.policy.shared()
	v := d.enter(now, h)
	if h.decision = FullDenied; v == lease.Admit {
		h.decision = FullAllowed
	}
	return v
}

// failSlots decides a hit of a concurrency rule whose tier above does not answer.
// Its slots count all the same, and are stated when there is an answer again.
func (d *decider) failSlots(now lease.Millis, h *hit, by lease.OnFailure) lease.Verdict {
	hd := d.slots.of(h)
	switch by {
	case lease.FailureDeny:
		return h.failClosed()
	case lease.FailureAllow:
		h.decision = FailedOpen
		d.slots.use(now, hd, h.cost)
	default:
		if taken, _ := d.slots.take(now, hd, h.cost, d.localShare(h.policy)); !taken {
			h.decision, h.quota.Remaining, h.quota.Reset = LocalDenied, 0, 1000
			return lease.Refuse
		}
		h.decision = LocalAllowed
	}
	h.slots = hd
	return lease.Admit
}

// grantSlots takes the answer to an ask for slots, and decides the requests that
// waited for it.
func (d *decider) grantSlots(now, sent lease.Millis, a *ask, g lease.Grant) {
	hd := a.holding
	d.slots.granted(now, sent, hd, g)
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
			d.answer(now, v, &h, d.failAnswered(now, &h, g.Status))
			continue
		case v.request == nil:
			if hd.free(now) >= h.cost {
				verdict = lease.Admit
			}
		default:
			if taken, _ := d.slots.take(now, hd, h.cost, 0); taken {
				verdict, h.slots = lease.Admit, hd
			} else if again {
				a.queue = append(a.queue, v)
				continue
			}
		}
		h.answeredBy(&g, max(0, hd.free(now)), verdict)
		d.answer(now, v, &h, verdict)
	}
	if again {
		a.repeats++
		hd.NextAsk = 0
	} else {
		a.repeats = 0
	}
	d.again(now, a)
}
