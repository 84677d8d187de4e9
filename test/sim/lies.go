package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
)

// accepts takes a call at a tier that remembers callers, and checks that none is refused
// of which no copy was taken: it would be an honest one.
func (w *World) accepts(name string, callers map[caller]*lease.Caller, c call) bool {
	id := c.caller()
	if w.Fault == MixesWorkers {
		id.worker = 0
	}
	known := callers[id]
	if known == nil {
		known = &lease.Caller{}
		callers[id] = known
	}
	ok := known.Accept(c.seq)
	w.ref.accepted(known, c, ok)
	return ok
}

// lies follows a call of a holder that lies: it says that units come back which nobody
// ever had, of leases that it knows of and of others; it shows the epoch of a life that
// never was.
func (h *holder) lies(c call) {
	w := h.w
	if w.chance(0.3) {
		lie := h.number()
		for _, wt := range c.wants {
			l := h.slots[wt.key].slot.Lots[w.rand.IntN(2)].Lease
			if w.chance(0.3) {
				l += uint32(w.rand.IntN(3))
			}
			wt.group, wt.lie = false, true
			wt.Want = lease.Want{Unused: pick(w.rand, 1<<32-1, 1<<31, 2*wt.rule.Terms.Capacity+1), Lease: l}
			lie.wants = append(lie.wants, wt)
		}
		h.leave(func() { w.send(lie, h.above, func(reply) {}) })
	}
	if w.chance(0.1) {
		empty := h.number()
		empty.epoch = w.rand.Uint64()
		empty.wants = slices.Clone(c.wants)
		for i := range empty.wants {
			empty.wants[i].Want, empty.wants[i].group = lease.Want{}, false
		}
		h.leave(func() { w.send(empty, h.above, func(reply) {}) })
	}
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }
