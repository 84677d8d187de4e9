package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// slots is the concurrency slots that this worker holds and uses, by key, and the
// pools in which all workers publish theirs. Shadow rules have a pool apart.
type slots struct {
	pop              *pop.PoP
	enforced, shadow *table.Pool
	holdings         map[uint64]*holding // by hash of the key
	swept            int                 // next page of the pools to look through
}

// holding is this worker's part of one key of a concurrency limit. Every worker is a
// holder of its own above, named by its number, and counts the streams that began
// with it. But a worker may use what another one holds: all publish in a pool what
// they hold and what they use, and a stream may begin while less is used than held.
// A worker gives back what no worker uses. What a worker that dies leaves in the pool
// counts until its ttl is over, in the pool and in the region.
//
// Scope: pop: no worker holds anything, and a stream may begin while less is used than
// the limit.
type holding struct {
	holder.Holding
	policy    *rulebook.Policy
	key       table.Key
	inUse     int64
	gave      lease.Millis // see table.Member
	owes      lease.Millis // until then the region may lack what it gave back
	denied    lease.Millis // when it was last denied a slot
	published lease.Millis // until then others count what it uses; 0: they lack the newest
	others    table.Others // as the pool had them last
}

// maxHoldings bounds the keys with slots in use or in reserve. More share those of
// one key per rule.
const maxHoldings = 1 << 16

// may is how many slots the region lets the worker hold now.
func (hd *holding) may(now lease.Millis) int64 {
	if now < hd.Until {
		return hd.May
	}
	return 0
}

// free is how many slots of the key the PoP has left; negative if more are in use.
func (hd *holding) free(now lease.Millis) int64 {
	held := hd.may(now) + hd.others.May
	if hd.policy.Local {
		held = hd.policy.Terms.Capacity
	}
	return held - hd.used()
}

// used is how many slots of the key the PoP uses.
func (hd *holding) used() int64 { return hd.inUse + hd.others.Uses }

// needed is how many slots the PoP needs this worker to hold: what is in use and the
// others do not hold. If several workers lack slots, each asks for its own streams.
func (hd *holding) needed(now lease.Millis) int64 {
	lacking := hd.used() - hd.others.May
	return max(0, min(lacking, max(hd.inUse, hd.may(now))))
}

// of returns the holding of the hit's key. If there are too many, it is that of
// the key that is shared.
func (s *slots) of(h *hit) *holding {
	hd := s.holdings[h.key.Hash]
	if hd == nil && len(s.holdings) >= maxHoldings {
		h.key = h.policy.SharedKey()
		hd = s.holdings[h.key.Hash]
	}
	if hd == nil {
		key := h.key
		key.Text = append([]byte(nil), key.Text...)
		hd = &holding{key: key}
		s.holdings[key.Hash] = hd
	}
	hd.policy = h.policy // of the newest rules
	return hd
}

// take takes slots for a stream, if that many are free.
func (s *slots) take(now lease.Millis, hd *holding, cost int64) (taken bool, outcome table.Outcome) {
	outcome = s.share(now, hd, func() bool {
		if taken = hd.free(now) >= cost; taken {
			hd.inUse += cost
		}
		return taken
	})
	return taken && outcome == table.Stored, outcome
}

// leave gives the slots of a hit back to the PoP, at once.
func (s *slots) leave(now lease.Millis, h *hit) {
	if hd := h.slots; hd != nil {
		h.slots = nil
		hd.inUse -= h.cost
		s.publish(now, hd)
	}
}

// share lets change decide by what the other workers hold and use, which is in
// hd.others, and publishes hd as it is then, if change returns true. change may be
// called several times; what it did the last time stands if the outcome is Stored.
// Otherwise nothing happened.
func (s *slots) share(now lease.Millis, hd *holding, change func() bool) (outcome table.Outcome) {
	pool, before := s.enforced, *hd
	if hd.policy.Shadow {
		pool = s.shadow
	}
	for range table.Tries {
		*hd = before
		hd.others = pool.Open(now, hd.key, s.pop.Number)
		if !change() {
			return table.Stored
		}
		hd.published = now + hd.policy.TTL
		m := table.Member{Uses: hd.inUse, May: hd.May, Until: hd.Until, Seen: hd.published, Gave: hd.gave}
		if outcome = pool.Commit(now, hd.key, s.pop.Number, m); outcome != table.Raced {
			break
		}
	}
	if outcome == table.Full && !hd.policy.Local {
		return table.Stored // alone: others do not see what it holds, nor use it
	}
	if outcome != table.Stored {
		*hd = before
	}
	return outcome
}

// publish lets the others see what the worker holds and uses. If that fails now, the
// next tick does it.
func (s *slots) publish(now lease.Millis, hd *holding) {
	if s.share(now, hd, func() bool { return true }) != table.Stored {
		hd.published = 0
	}
}

// state makes the want of a holding, when it is sent: what the PoP needs of it, and
// what the requests that wait need beyond. What no worker needs is given up from here on.
func (s *slots) state(now lease.Millis, hd *holding, t *lease.Terms, need, waiting int64) lease.Want {
	var hw lease.Want
	outcome := s.share(now, hd, func() bool {
		may := hd.may(now)
		hw = hd.Ask(t, now, hd.needed(now), need, waiting)
		gives := hd.May < may
		if hd.May = min(hd.May, may); gives {
			hd.gave, hd.owes = now+t.Timeout, now+hd.policy.TTL
		}
		return gives
	})
	if outcome != table.Stored { // the others count on all of it
		may := hd.may(now)
		hw = lease.Want{Holding: max(may, hd.needed(now)), Need: need, Waiting: waiting}
		hw.Want = hw.Holding + waiting
		hd.Asked, hd.Asking = now, true
	}
	return hw
}

// granted takes what the granter lets a worker hold.
func (s *slots) granted(now, sent lease.Millis, hd *holding, g lease.Grant) {
	hd.Apply(&hd.policy.Terms, now, sent, g, s.pop.Jitter())
	if g.Status == lease.OK || g.Status == lease.Denied {
		hd.gave, hd.owes = min(hd.gave, now), 0
	}
	s.publish(now, hd)
}

// sweep drops what lapsed of some pages of the pools.
func (s *slots) sweep(now lease.Millis) {
	for range (table.PoolPages + scanTicks - 1) / scanTicks {
		s.enforced.Sweep(now, s.swept)
		s.shadow.Sweep(now, s.swept)
		s.swept = (s.swept + 1) % table.PoolPages
	}
}

// rejectedHere is after how long a client that found no slot in the PoP should come
// back.
const rejectedHere lease.Millis = 10

// enter decides a hit of a concurrency rule.
func (d *taker) enter(now lease.Millis, h *hit) holder.Verdict {
	hd := d.slots.of(h)
	h.suspect = hd.NextAsk > 0
	taken, outcome := d.slots.take(now, hd, h.cost)
	h.quota.Remaining = max(0, hd.free(now))
	switch {
	case taken:
		h.slots = hd
		return holder.Admit
	case outcome != table.Stored && h.policy.Local:
		return d.enterShared(now, h)
	case h.policy.Local:
		h.retry(now, now+rejectedHere)
		return holder.Reject
	}
	verdict := hd.Missed(now, max(hd.gave, hd.others.Gave) > hd.denied)
	switch verdict {
	case holder.Reject:
		h.retry(now, hd.NextAsk)
	case holder.Unanswered:
		return d.failAnswered(now, h, hd.Back.Status())
	}
	return verdict
}

// enterShared decides a hit of scope: pop whose key finds no place in the pool: all
// such keys of a rule share the slots of one.
func (d *taker) enterShared(now lease.Millis, h *hit) holder.Verdict {
	if h.key.Hash == h.policy.ID {
		return h.withoutPlace()
	}
	h.key = h.policy.SharedKey()
	v := d.enter(now, h)
	if h.decision = rulebook.FullDenied; v == holder.Admit {
		h.decision = rulebook.FullAllowed
	}
	return v
}
