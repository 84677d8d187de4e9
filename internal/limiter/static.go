package limiter

import (
	"context"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Static is the store of all regions as one of them uses it, which enforces its static share
// while it is cut off. Create it with [NewStatic]. It is safe for concurrent use.
type Static struct {
	region   string
	far, own engine.Store
	receipts *Receipts

	granted, refused telemetry.Counter

	mu     sync.Mutex
	shares map[*engine.Policy]*engine.Policy
}

// mostShares bounds the policies of shares that are kept.
const mostShares = 4096

// shareTag distinguishes leases of the share from those of the aggregator, see [Static.returnsShare].
const shareTag = 1 << 31

// NewStatic makes a store that asks far, the store of all regions. Asks of policies with
// static shares that far denies or does not decide go to own, the region's own store, if the
// region may take its share: its share of the limit is an ordinary counter there. Else what is
// not decided is denied: a region that is cut off admits what it holds on lease, and its share.
//
// Units of the share that are given back go to own, all else that is reported to far.
func NewStatic(region string, far, own engine.Store, receipts *Receipts, m *telemetry.Registry) *Static {
	m.GaugeFunc("weir_reserve_in_use", "1 while this region is cut off from the aggregator and takes its static shares.", func() float64 {
		if receipts.Silent() {
			return 1
		}
		return 0
	})
	return &Static{
		region: region, far: far, own: own, receipts: receipts, shares: map[*engine.Policy]*engine.Policy{},
		granted: m.Counter("weir_reserve_units_granted_total", "Units granted from static shares of limits with scope: global."),
		refused: m.Counter("weir_reserve_refused_total", "Wants denied because neither the aggregator decided on them nor had the region a share of the window."),
	}
}

// Epoch is that of the store of all regions.
func (s *Static) Epoch() uint64 { return s.far.Epoch() }

// Acquire asks the store of all regions first.
func (s *Static) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if !s.returnShares(ctx, asks, grants) {
		s.far.Acquire(ctx, asks, grants)
	}
	var own engine.Selection
	for first := 0; first < len(asks); {
		next := first + engine.GroupLen(asks[first:])
		s.take(&own, asks, grants, first, next)
		first = next
	}
	if len(own.Asks) > 0 {
		own.Acquire(ctx, s.own)
		for i, at := range own.At {
			grants[at] = s.shared(&asks[at], &own.Grants[i])
		}
	}
	for first := 0; first < len(asks); {
		next := first + engine.GroupLen(asks[first:])
		if next-first > 1 {
			engine.UndoDenied(ctx, s, asks[first:next], grants[first:next])
		}
		first = next
	}
}

// returnShares gives back to the region's own store what was granted there, and asks the
// store of all regions for the rest. False: there is nothing to give back, and no store was asked.
func (s *Static) returnShares(ctx context.Context, asks []engine.Ask, grants []lease.Grant) bool {
	var far, back engine.Selection
	for i := range asks {
		a := &asks[i]
		if !s.returnsShare(a) {
			if len(back.Asks) > 0 {
				far.Add(asks, i)
			}
			continue
		}
		if len(back.Asks) == 0 { // mostly there is none, and nothing to divide
			for before := range i {
				far.Add(asks, before)
			}
		}
		back.Asks = append(back.Asks, engine.Ask{
			Policy: s.shareOf(a.Policy), Key: a.Key, Returned: a.Returned, Want: lease.Want{Unused: a.Want.Unused, Lease: a.Want.Lease ^ shareTag},
		})
		back.At = append(back.At, i)
		rest := *a
		rest.Want.Unused, rest.Want.Lease, rest.Returned = 0, 0, nil
		if !rest.Peeks() {
			far.Asks, far.At = append(far.Asks, rest), append(far.At, i)
		}
	}
	if len(back.Asks) == 0 {
		return false
	}
	back.Acquire(ctx, s.own)
	back.Answer(grants)
	far.Acquire(ctx, s.far)
	far.Answer(grants)
	return true
}

// returnsShare reports whether an ask gives back what was granted from the share. Leases are named by
// the period that was charged, in milliseconds modulo 2^32, and those of the share have
// another highest bit. Windows by the clock are recognized by name. For other limits a
// period that is more than 12 days away is taken for one of the share.
func (s *Static) returnsShare(a *engine.Ask) bool {
	if a.Want.Unused == 0 || !a.Policy.HasShares() {
		return false
	}
	l, id := a.Policy.Limit, a.Want.Lease
	spec, now := l.Spec(), s.receipts.storeTime()
	switch {
	case spec.Algorithm == limit.TokenBucket:
		return id == shareTag
	case spec.Algorithm == limit.SlidingLog, spec.Align == limit.AlignFirstRequest:
		away := int32(id - l.PeriodID(now))
		return away > 1<<30 || away < -1<<30
	}
	start := now - now%spec.Period
	for _, period := range []limit.Micros{start, start - spec.Period, start + spec.Period} {
		if id == l.PeriodID(period)^shareTag {
			return true
		}
	}
	return false
}

// take adds the asks of a group that are to be answered from the share.
func (s *Static) take(own *engine.Selection, asks []engine.Ask, grants []lease.Grant, first, next int) {
	denied := engine.IsDenied(asks[first:next], grants[first:next])
	if denied && !s.takesAll(asks[first:next]) {
		own = nil // the request is denied whatever the share has
	}
	for i := first; i < next; i++ {
		a, g := &asks[i], &grants[i]
		undecided := g.Status == lease.Unavailable || g.Status == lease.Denied || denied && a.Want.Need > 0
		if !undecided || !a.Policy.HasShares() || a.Want.Want == 0 && !a.Peeks() {
			continue
		}
		takes, wait := s.receipts.Takes(a.Policy.Limit)
		switch {
		case takes && own != nil:
			w := &a.Want
			own.Asks = append(own.Asks, engine.Ask{Policy: s.shareOf(a.Policy), Key: a.Key, Group: a.Group, Want: lease.Want{
				Need: w.Need, Waiting: w.Waiting, Want: w.Want, Soon: w.Soon, Fresh: w.Fresh,
			}})
			own.At = append(own.At, i)
		case g.Status == lease.Unavailable:
			*g = s.refuse(a, wait)
		}
	}
}

// takesAll reports whether all of a group that need something may be answered from the share.
func (s *Static) takesAll(group []engine.Ask) bool {
	for i := range group {
		if p := group[i].Policy; group[i].Want.Need > 0 {
			if takes, _ := s.receipts.Takes(p.Limit); !takes || !p.HasShares() {
				return false
			}
		}
	}
	return true
}

// shared is the answer to an ask from the share.
func (s *Static) shared(a *engine.Ask, g *lease.Grant) lease.Grant {
	if g.Status == lease.Unavailable {
		return s.refuse(a, 0)
	}
	out := *g
	out.Limit = a.Policy.Terms.Capacity // clients see the limit of the rule
	out.StillOwed = a.Want.Overdrawn > 0
	if out.Granted > 0 {
		out.Lease ^= shareTag
		s.granted.Add(float64(out.Granted))
	}
	return out
}

// refuse denies an ask that neither the share nor the aggregator decided. The holder may ask
// again soon: the aggregator may answer again at any time.
func (s *Static) refuse(a *engine.Ask, wait limit.Micros) lease.Grant {
	s.refused.Inc()
	t := &a.Policy.Terms
	after := max(lease.CeilMillis(wait), t.Interval)
	return lease.Grant{
		Status: lease.Denied, Limit: t.Capacity, RetryAfter: after, Reset: after, AskAfter: t.Interval, StillOwed: a.Want.Overdrawn > 0,
	}
}

// shareOf is the policy of the region's share.
func (s *Static) shareOf(p *engine.Policy) *engine.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.shares[p]
	if share == nil {
		if len(s.shares) >= mostShares {
			clear(s.shares)
		}
		share = p.ShareOf(s.region)
		s.shares[p] = share
	}
	return share
}
