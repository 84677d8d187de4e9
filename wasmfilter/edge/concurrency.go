package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// refusedHere is after how long a client that found no slot in the PoP should come
// back.
const refusedHere lease.Millis = 10

// enter decides a hit of a concurrency rule.
func (d *taker) enter(now lease.Millis, h *hit) lease.Verdict {
	hd := d.slots.of(h)
	h.suspect = hd.NextAsk > 0
	taken, outcome := d.slots.take(now, hd, h.cost)
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
	}
	verdict := hd.Missed(now, hd.others.Gave > hd.denied)
	switch verdict {
	case lease.Refuse:
		h.retry(now, hd.NextAsk)
	case lease.Unanswered:
		return d.failAnswered(now, h, hd.Back.Status())
	}
	return verdict
}

// enterShared decides a hit of scope: pop whose key finds no place in the pool: all
// such keys of a rule share the slots of one.
func (d *taker) enterShared(now lease.Millis, h *hit) lease.Verdict {
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
