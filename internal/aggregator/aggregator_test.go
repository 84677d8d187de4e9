package aggregator_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

// from is a store as one region calls it.
type from struct {
	engine.Store
	region string
}

func (f from) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	for i := range asks {
		asks[i].Region = f.region
	}
	f.Store.Acquire(ctx, asks, grants)
}

// For a region that is alone the store is like the one behind it, to the last unit.
func TestConformance(t *testing.T) {
	alone := func(_ testing.TB, o enginetest.Options) engine.Store {
		keys := cmp.Or(o.MaxKeys, 100_000)
		counters := memory.New(memory.Config{MaxKeys: keys, MaxBytes: 1 << 30, Now: o.Now})
		return from{aggregator.New(aggregator.Config{Store: counters, MaxKeys: 2 * keys, MaxBytes: 1 << 30, Now: o.Now}), "eu"} // one region may have half
	}
	enginetest.Run(t, enginetest.Subject{Doubts: true, New: alone})
}

// shared is a limit of 100 units an hour that several regions share.
type shared struct {
	t        *testing.T
	now      limit.Micros
	policy   *engine.Policy
	store    *aggregator.Store
	counters *memory.Store
	metrics  *telemetry.Registry
}

func newShared(t *testing.T, fair rule.Sharing, maxKeys int) *shared {
	t.Helper()
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour}))(t)
	s := &shared{t: t, now: 1_700_000_000 * limit.Second, metrics: telemetry.NewRegistry("test")}
	s.policy = engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
	s.policy.Scope, s.policy.Sharing = rule.ScopeGlobal, fair
	clock := func() limit.Micros { return s.now }
	s.counters = memory.New(memory.Config{MaxKeys: maxKeys, MaxBytes: 1 << 24, Now: clock})
	s.store = aggregator.New(aggregator.Config{
		Store: s.counters, MaxKeys: maxKeys, MaxBytes: 1 << 24, Now: clock, Metrics: s.metrics,
	})
	return s
}

// ask asks for units that wait, and reports so many rejected ones.
func (s *shared) ask(region, key string, units, rejected int64) lease.Grant {
	s.now += 100 * limit.Millisecond
	return s.want(region, key, lease.Want{Need: min(units, 1), Waiting: units, Want: units, Denied: rejected})
}

// After a reset the limit is divided anew, and what comes back of leases from before makes room for nobody but those
// who had them.
func TestReset(t *testing.T) {
	for _, fair := range []rule.Sharing{rule.SharingEqual, rule.SharingProportional} {
		s := newShared(t, fair, 1000)
		s.ask("us", "k", 1, 50)
		for range 10 {
			s.ask("eu", "k", 10, 10)
			s.ask("us", "k", 10, 10)
		}
		if g := s.ask("eu", "k", 1, 0); g.Status != lease.Denied {
			t.Fatalf("%+v, want that all is used up", g)
		}
		for _, op := range []engine.Op{engine.Look, engine.Reset} {
			grants := make([]lease.Grant, 1)
			s.store.Acquire(t.Context(), []engine.Ask{{Policy: s.policy, Key: []byte("k"), Op: op}}, grants)
			if left := int64(op-engine.Look) * 100; grants[0].Status != lease.OK || grants[0].Remaining != left {
				t.Errorf("operation %d: %+v, want %d left", op, grants[0], left)
			}
		}
		if s.store.Keys() != 0 {
			t.Error("what regions had of the key is still known")
		}
		s.want("eu", "k", lease.Want{Unused: 30, Lease: s.policy.Limit.PeriodID(s.now)})
		var got int64
		for range 30 {
			got += s.ask("us", "k", 10, 10).Granted + s.ask("eu", "k", 10, 10).Granted
		}
		if got != 100 {
			t.Errorf("%d units after the reset, want 100", got)
		}
	}
}

// The metrics are by region, for a bounded number of them.
func TestMetrics(t *testing.T) {
	s := newShared(t, rule.SharingProportional, 1000)
	s.ask("eu", "k", 30, 7)
	s.ask("us", "k", 90, 0)
	for i := range 100 {
		s.ask(fmt.Sprint("liar-", i), "k", 1, 0)
	}
	measure.Has(t, s.metrics.Handler(),
		`weir_region_wants_total{region="eu"} 1`, `weir_region_units_granted_total{region="eu"} 30`, `weir_region_units_denied_total{region="eu"} 7`,
		`weir_region_units_granted_total{region="us"} 70`, `weir_region_wants_total{region="others"} 38`)
	if n := strings.Count(measure.Page(s.metrics.Handler()), "weir_region_wants_total{"); n != reserve.MaxRegions+1 {
		t.Errorf("%d regions", n)
	}
}
