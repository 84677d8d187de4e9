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
	case Release:
		return s.Release(l, t, now, a.Holder)
	}
	return s.Acquire(l, t, now, a.Holder, a.Seq, a.Want)
}
