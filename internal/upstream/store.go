package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Aggregator is the store of all regions as a region uses it: the aggregator behind a lease cache.
type Aggregator interface {
	engine.Store
	engine.Fallback
	// Owe adds units to what is reported of a key, which were admitted without the aggregator.
	Owe(a *engine.Ask, units int64)
}

// Config is what a [Store] is made of.
type Config struct {
	Aggregator Aggregator
	// Own is the region's own store, behind a lease cache if it has one; Raw is without. Both have the same
	// counters.
	Own, Raw engine.Store
	Keeper   *Keeper
	// RuleUnknown reports whether the aggregator does not have a rule, by its last answer.
	RuleUnknown func(rule string) bool
	Metrics     *telemetry.Registry
}

// Store is the store of all regions as one of them uses it, which goes on by the region's reserve where the
// aggregator does not decide. Create it with [New]. It is safe for concurrent use; [Keeper.Run] has to run beside
// it.
type Store struct {
	config   Config
	reserves engine.Parts // policies of the reserve
	denials  denials

	granted, trickled, rejected telemetry.Counter
}

// New makes a store. Asks of policies with shares that Aggregator does not decide on, or denies although the region has its
// reserve in that window, are answered by the reserve.
func New(c Config) *Store {
	s := &Store{
		config:   c,
		granted:  c.Metrics.Counter("weir_reserve_units_granted_total", "Units granted from the reserve of this region."),
		trickled: c.Metrics.Counter("weir_trickle_units_granted_total", "Units granted at this region's share of a limit's rate, in windows of which it has renounced the reserve."),
		rejected: c.Metrics.Counter("weir_reserve_denied_total", "Wants that the aggregator did not decide on and that were denied because the reserve was used up."),
	}
	c.Metrics.GaugeFunc("weir_reserve_in_use", "1 while the aggregator does not decide on wants of this region, and it goes on by its reserve.", func() float64 {
		return float64(limit.Bit(c.Keeper.InUse()))
	})
	return s
}

// Acquire asks the aggregator first. Units that were granted from the reserve go back there.
func (s *Store) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if !s.returnOwn(ctx, asks, grants) {
		s.ask(ctx, asks, grants)
	}
	var t taking
	for first := 0; first < len(asks); {
		next := first + engine.GroupLen(asks[first:])
		s.plan(ctx, &t, asks, grants, first, next)
		first = next
	}
	if len(t.at) == 0 {
		return
	}
	s.take(ctx, &t, asks, grants)
	for first := 0; first < len(asks); {
		next := first + engine.GroupLen(asks[first:])
		if next-first > 1 {
			engine.UndoDenied(ctx, s, asks[first:next], grants[first:next])
		}
		first = next
	}
}

// Of the time of a caller a part is kept for the reserve, which is near.
const (
	keptShare = 5
	maxKept   = 50 * time.Millisecond
)

// answersWithin is how long the aggregator may take in an ordinary hour. What is not decided for a caller that gave less
// shows nothing: it is the caller that is impatient.
const answersWithin = 250 * time.Millisecond

// ask asks the aggregator, and leaves time to use the reserve. It notes what was decided, unless the caller has gone or
// gave little time.
func (s *Store) ask(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	ends, ok := ctx.Deadline()
	left := time.Until(ends)
	if ok && left > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, ends.Add(-min(left/keptShare, maxKept)))
		defer cancel()
	}
	s.config.Aggregator.Acquire(ctx, asks, grants)
	until, _ := ctx.Deadline()
	if gone := errors.Is(ctx.Err(), context.Canceled); !gone && (!ok || left >= answersWithin || time.Now().Before(until)) {
		s.note(asks, grants)
	}
}

// note counts which wants of limits with shares were decided in time. A rule that the aggregator lacks shows nothing
// about that.
func (s *Store) note(asks []engine.Ask, grants []lease.Grant) {
	var decided, undecided int64
	for i := range asks {
		switch a := &asks[i]; {
		case a.Want.Want == 0 || !a.Policy.HasShares():
		case grants[i].Status != lease.Unavailable:
			decided++
		case !s.config.RuleUnknown(a.Policy.Rule):
			undecided++
		}
	}
	if decided+undecided > 0 {
		s.config.Keeper.wants.note(decided, undecided)
	}
}

var _ engine.Fallback = (*Store)(nil)

// Fall decides on an ask for which the reserve could not be used either: by on_failure, which with local is this
// replica's part of the region's share.
func (s *Store) Fall(a *engine.Ask, holders int) engine.Judgment {
	if p := a.Policy; p.HasShares() {
		share := s.config.Keeper.ShareBy(p.Regions)
		if share == 0 {
			return p.Failed(p.OnFailure.FailUncounted())
		}
		n := int64(holders)
		if n <= 0 {
			n = max(p.ExpectedPoPs, 1)
		}
		holders = int((n*int64(reserve.Whole) + int64(share) - 1) / int64(share))
	}
	return s.config.Aggregator.Fall(a, holders)
}

// Refund takes back what Fall admitted.
func (s *Store) Refund(a *engine.Ask, j *engine.Judgment) { s.config.Aggregator.Refund(a, j) }
