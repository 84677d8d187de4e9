package sim

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// RestartGranter makes the granter begin anew without its state.
func (w *World) RestartGranter() {
	w.tracef("granter restarts")
	w.granter.restart()
	w.lost()
}

// RestartHolder makes holder n, counted from 1, begin anew: a new id, no slots.
func (w *World) RestartHolder(n int) {
	h := w.holders[n-1]
	w.tracef("%s restarts", h.name)
	h.restart()
}

// StepClock sets the granter's clock forward or back. Time that did not pass
// refills buckets and empties logs; a clock that jumps back by more than a
// period finds counters of a time to come. Either costs a counter its memory.
func (w *World) StepClock(by limit.Micros) {
	w.tracef("granter's clock steps by %d ms", by/limit.Millisecond)
	w.ref.ahead = 0
	if by > -limit.Second { // counters stay in their window until the clock has caught up
		w.ref.ahead = w.granter.now()
	}
	w.granter.step += by
	for _, a := range w.ref.list {
		s := a.rule.Limit.Spec()
		window := s.Algorithm == limit.FixedWindow || s.Algorithm == limit.SlidingWindow
		if by < -s.Period || by > 0 && !window {
			a.losses++
		}
		if by < 0 && a.rule.Terms.Consistency == lease.Optimistic { // its holders see an end of the window twice
			a.extra += w.ref.lives * a.rule.Terms.Overdraft
		}
	}
}

// lost notes that every counter has lost its state.
func (w *World) lost() {
	for _, a := range w.ref.list {
		a.losses++
	}
}

// Change gives a rule another limit, at all tiers at once. Denials are void: they
// were about the old one.
func (w *World) Change(old, new *Rule) {
	for _, h := range w.holders {
		for _, e := range h.entries {
			if e.rule == old {
				void(&e.slot)
			}
		}
	}
	for _, r := range w.relays {
		for _, b := range r.all {
			if b.rule == old {
				void(&b.node.Account)
			}
		}
	}
	for _, a := range w.ref.list {
		if a.rule == old {
			w.ref.changed(a, new)
		}
	}
	old.Limit, old.Terms = new.Limit, new.Terms
}

// void forgets the denials of a slot.
func void(s *lease.Account) { s.DeniedNeed, s.Refused, s.NextAsk, s.LimitedUntil = 0, false, 0, 0 }
