package upstream

import (
	"context"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// Leases are named by the period that was charged, in milliseconds modulo 2^32. Those that were cut from the reserve,
// or the trickle, have other highest bits, so that what comes back of them goes there.
const (
	reserveTag = 1 << 31
	trickleTag = 3 << 30
)

// returnOwn gives back to the region's own store what was granted there, and asks the aggregator for the rest.
// False: there is nothing to give back, and nobody was asked.
func (s *Store) returnOwn(ctx context.Context, asks []engine.Ask, grants []lease.Grant) bool {
	var far, back, trickled engine.Selection
	found := false
	for i := range asks {
		a := &asks[i]
		own, tag := s.ownLease(a)
		if own == nil {
			if found {
				far.Add(asks, i)
			}
			continue
		}
		if !found { // mostly there is none, and nothing to divide
			found = true
			for before := range i {
				far.Add(asks, before)
			}
		}
		to := &back
		if tag == trickleTag {
			to = &trickled
		}
		to.Asks = append(to.Asks, engine.Ask{Policy: own, Key: a.Key, Returned: a.Returned, Want: lease.Want{Unused: a.Want.Unused, Lease: a.Want.Lease ^ tag}})
		to.At = append(to.At, i)
		rest := *a
		rest.Want.Unused, rest.Want.Lease, rest.Returned = 0, 0, nil
		if !rest.Peeks() {
			far.Asks, far.At = append(far.Asks, rest), append(far.At, i)
		}
	}
	if !found {
		return false
	}
	back.Acquire(ctx, s.own)
	back.Answer(grants)
	trickled.Acquire(ctx, s.raw)
	trickled.Answer(grants)
	if len(far.Asks) > 0 {
		far.Grants = make([]lease.Grant, len(far.Asks))
		s.ask(ctx, far.Asks, far.Grants)
	}
	far.Answer(grants)
	return true
}

// ownLease is the counter of the region that granted what an ask gives back, and the tag of the lease; nil: the
// aggregator did.
func (s *Store) ownLease(a *engine.Ask) (*engine.Policy, uint32) {
	if a.Want.Unused == 0 || !a.Policy.HasShares() {
		return nil, 0
	}
	p, now := s.keeper.permission(), s.keeper.now()
	l, id, spec := a.Policy.Limit, a.Want.Lease, a.Policy.Limit.Spec()
	w := reserve.WindowOf(spec)
	begin, ok := labelled(trickleWindow(spec, w), now, id^trickleTag)
	if ok || w.Refills && id != 0 {
		return trickle(a.Policy, s.cut(a.Policy, p, begin), a.Policy.Terms.Capacity), trickleTag
	}
	_, ok = labelled(w, now, id^reserveTag)
	if away := int32(id - l.PeriodID(now)); !ok && (!isAnywhere(l) || away <= 1<<30 && away >= -1<<30) {
		return nil, 0
	}
	share, _ := p.Part()
	return s.counters.reserve(a.Policy, share), reserveTag
}

// labelled is the begin of the window, of those about this time, that a lease is named by.
func labelled(w reserve.Window, now limit.Micros, id uint32) (begin limit.Micros, ok bool) {
	running := w.Begin(now)
	for _, begin := range []limit.Micros{running, running - w.Period, running + w.Period} {
		if id == uint32(begin/limit.Millisecond) { // limit.PeriodID, which a bucket has not
			return begin, true
		}
	}
	return 0, false
}

// isAnywhere reports whether leases of a limit are named by any time, and not by the begins of windows alone.
func isAnywhere(l *limit.Limit) bool {
	s := l.Spec()
	return s.Algorithm == limit.SlidingLog || s.Algorithm == limit.FixedWindow && s.Align == limit.AlignFirstRequest
}

// charged is the begin of the window in which a lease of the region's store was charged.
func charged(l *limit.Limit, w reserve.Window, now limit.Micros, id uint32) (begin limit.Micros, ok bool) {
	if begin, ok = labelled(w, now, id); ok || !isAnywhere(l) {
		return begin, ok
	}
	return w.Begin(l.PeriodFromID(now, id)), true
}
