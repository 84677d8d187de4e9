package upstream

import (
	"context"
	"slices"

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
	if !slices.ContainsFunc(asks, func(a engine.Ask) bool { return s.ownLease(&a).policy != nil }) { // mostly
		return false
	}
	var toAggregator, back, trickled engine.Selection
	for i := range asks {
		a := &asks[i]
		own := s.ownLease(a)
		if own.policy == nil {
			toAggregator.Add(asks, i)
			continue
		}
		to := &back
		if own.trickled {
			to = &trickled
		}
		to.Asks = append(to.Asks, engine.Ask{Policy: own.policy, Key: a.Key, Want: lease.Want{Unused: a.Want.Unused, Lease: own.lease}})
		to.At = append(to.At, i)
		rest := *a
		rest.Want.Unused, rest.Want.Lease = 0, 0
		if !rest.Peeks() {
			toAggregator.Asks, toAggregator.At = append(toAggregator.Asks, rest), append(toAggregator.At, i)
		}
	}
	back.Acquire(ctx, s.config.Own)
	back.Answer(grants)
	trickled.Acquire(ctx, s.config.Raw)
	trickled.Answer(grants)
	if len(toAggregator.Asks) > 0 {
		toAggregator.Grants = make([]lease.Grant, len(toAggregator.Asks))
		s.ask(ctx, toAggregator.Asks, toAggregator.Grants)
	}
	toAggregator.Answer(grants)
	return true
}

// ownLease is a lease of the region's own counters.
type ownLease struct {
	policy   *engine.Policy // of the counter; nil: the aggregator granted it
	lease    uint32         // its name there
	trickled bool           // it is of the trickle
}

// ownLease is the lease that an ask gives back, if the region granted it.
func (s *Store) ownLease(a *engine.Ask) ownLease {
	if a.Want.Unused == 0 || !a.Policy.HasShares() {
		return ownLease{}
	}
	src := source{permit: s.config.Keeper.permission()}
	now := s.config.Keeper.now()
	src.find(a.Policy, now, s.config.RuleUnknown(a.Policy.Rule))
	l, id := a.Policy.Limit, a.Want.Lease
	if src.window.Refills {
		if id == 0 || l.NamesReservation(now, id) { // so the aggregator names its leases of a bucket
			return ownLease{}
		}
		return ownLease{policy: trickleBucket(a.Policy, id, src.share), trickled: true}
	}
	if _, ok := labelled(trickleWindow(l.Spec(), src.window), now, id^trickleTag); ok {
		return ownLease{trickle(a.Policy, src.since, a.Policy.Terms.Capacity), id ^ trickleTag, true}
	}
	_, ok := labelled(src.window, now, id^reserveTag)
	if away := int32(id - l.PeriodID(now)); !ok && (!isAnywhere(l) || away <= 1<<30 && away >= -1<<30) {
		return ownLease{}
	}
	return ownLease{s.reserves.Of(a.Policy, src.share, reserveOf), id ^ reserveTag, false}
}

// labelled is the begin of the window, of those about this time, that a lease is named by.
func labelled(w reserve.Window, now limit.Micros, id uint32) (begin limit.Micros, ok bool) {
	for _, begin := range w.Near(now) {
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
