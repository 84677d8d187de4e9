package engine

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// AcquireSlots applies an ask for a Concurrency limit to the slots of its key.
func AcquireSlots(s *granter.Slots, now limit.Micros, a *Ask) lease.Grant {
	l, t := a.Policy.Limit, &a.Policy.Terms
	switch a.Op {
	case Take:
		return s.Take(l, t, now, a.Holder, a.Want.Need)
	case Renew:
		return s.Renew(l, t, now, a.Holder)
	case Release, Look, Reset: // who looks holds nothing
		return s.Release(l, t, now, a.Holder)
	}
	return s.Acquire(l, t, now, a.Holder, a.Seq, a.Want)
}

// AcquireUnits applies an ask for a limit on units to the counter of its key.
func AcquireUnits(c *granter.Counter, now limit.Micros, a *Ask) lease.Grant {
	l, t := a.Policy.Limit, &a.Policy.Terms
	switch a.Op {
	case Look:
		return c.Look(l, t, now)
	case Reset:
		return c.Reset(l, t, now)
	}
	return c.Acquire(l, t, now, a.Want)
}
