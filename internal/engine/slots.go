package engine

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// AcquireSlots applies an ask for a Concurrency limit to the slots of its key.
func AcquireSlots(s *lease.Slots, now limit.Micros, a *Ask) lease.Grant {
	l, t := a.Policy.Limit, &a.Policy.Terms
	switch a.Op {
	case Take:
		return s.Take(l, t, now, a.Holder, a.Want.Need)
	case Renew:
		return s.Renew(l, t, now, a.Holder)
	case Release:
		return s.Release(l, t, now, a.Holder)
	}
	return s.Acquire(l, t, now, a.SlotWant())
}

// SlotWant is what the holder of the ask states.
func (a *Ask) SlotWant() lease.SlotWant {
	w := &a.Want
	return lease.SlotWant{Holder: a.Holder, Seq: a.Seq, Holding: a.Holding, Need: w.Need, Waiting: w.Waiting, Want: w.Want}
}
