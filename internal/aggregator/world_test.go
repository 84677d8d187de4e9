package aggregator_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// reserves are aggregators on one store, and regions that call them.
type reserves struct {
	t       testing.TB
	now     limit.Micros // steady, and that of the regions' stores
	wall    limit.Micros // by so much the clock of the aggregators' store is ahead
	away    bool         // that store
	during  func()       // runs in the next exchange
	below   *memory.Store
	cell    engine.Cell
	stores  []*aggregator.Store
	weights rule.Regions
	policy  *engine.Policy
	window  reserve.Window
	regions map[string]*region
	metrics *telemetry.Registry
	reason  string // why the first aggregator does not decide
	log     proc.Lines
}

// region is one that calls one of the aggregators twice a second.
type region struct {
	name   string
	record reserve.Record
	calls  int  // which aggregator
	cut    bool // it calls nobody
	err    error
	used   map[limit.Micros]int64 // of its reserve, by window
}

var (
	errAway  = errors.New("no connection")
	quarters = rule.Regions{{Name: "eu", Weight: 1}, {Name: "us", Weight: 3}}
)

// newReserves makes two regions and so many aggregators, a second after a window began.
func newReserves(t testing.TB, s limit.Spec, aggregators int) *reserves {
	t.Helper()
	l := fatal.Get(limit.New(s))(t)
	w := &reserves{t: t, weights: quarters, window: reserve.WindowOf(s), regions: map[string]*region{}}
	w.now = 1_700_000_000*limit.Second/w.window.Period*w.window.Period + limit.Second
	w.policy = engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0))
	w.policy.Scope, w.policy.OnFailure, w.policy.Regions = rule.ScopeGlobal, lease.FailureLocal, quarters
	w.below = memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 20, Now: w.clock})
	w.cell = w.below.NewCell()
	w.stores = make([]*aggregator.Store, aggregators)
	for i := range w.stores {
		w.start(i)
	}
	for i, name := range []string{"eu", "us"} {
		w.regions[name] = &region{name: name, record: reserve.Record{ID: uint64(i + 1)}, calls: i % aggregators, used: map[limit.Micros]int64{}}
	}
	return w
}

// clock is that of the aggregators' store.
func (w *reserves) clock() limit.Micros { return w.now + w.wall }

// Swap makes the world the cell of its aggregators.
func (w *reserves) Swap(ctx context.Context, old, next []byte) ([]byte, limit.Micros, error) {
	if w.away {
		return nil, 0, errAway
	}
	if during := w.during; during != nil {
		w.during = nil
		during()
	}
	return w.cell.Swap(ctx, old, next)
}

// start starts an aggregator, with the counters and the table that there are.
func (w *reserves) start(i int) {
	w.metrics = telemetry.NewRegistry("test")
	w.stores[i] = aggregator.New(aggregator.Config{
		Store: w.below, MaxKeys: 100, MaxBytes: 1 << 20, Now: w.clock, Steady: func() limit.Micros { return w.now }, Cell: w,
		Metrics: w.metrics, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Undecided: func(reason string) {
			if i == 0 {
				w.reason = reason
			}
		},
	})
	w.stores[i].SetRegions(w.weights)
	w.exchange()
}

// exchange lets each aggregator exchange what it knows.
func (w *reserves) exchange() {
	for _, s := range w.stores {
		if s != nil {
			_ = s.Exchange(w.t.Context())
		}
	}
}

// pass lets the time pass: each quarter of a second aggregators exchange, and each half regions call.
func (w *reserves) pass(d limit.Micros) {
	for ends := w.now + d; w.now < ends; {
		w.now += limit.Second / 4
		w.exchange()
		for _, name := range slices.Sorted(maps.Keys(w.regions)) {
			if r := w.regions[name]; !r.cut && w.now%(limit.Second/2) < limit.Second/4 {
				w.call(r)
			}
		}
	}
}

// call states what a region has renounced, and takes the reply.
func (w *reserves) call(r *region) {
	st := r.record.Statement()
	var reply *reserve.Reply
	reply, r.err = w.stores[r.calls].Heard(r.name, &st)
	if r.err == nil && reply != nil {
		r.record = r.record.Replied(*reply).Renounced(reply.At, w.now, w.now, []reserve.Window{w.window})
	}
}

// spend lets a region spend all that it gets at once: from the aggregator, or if that does not decide, or denies it, from its
// reserve. It is no more than the region may have.
func (w *reserves) spend(name string) (got int64) {
	r := w.regions[name]
	if !r.cut {
		w.call(r)
		for r.err == nil {
			asks := []engine.Ask{{Policy: w.policy, Key: []byte("k"), Region: name, Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}
			grants := make([]lease.Grant, 1)
			w.stores[r.calls].Acquire(context.Background(), asks, grants)
			if grants[0].Limit != w.policy.Terms.Capacity {
				w.t.Errorf("clients get a limit of %d", grants[0].Limit)
			}
			if grants[0].Granted == 0 {
				break
			}
			got++
		}
	}
	var p reserve.Permission
	r.record, p = r.record.Permitted(w.now)
	begin := w.window.Begin(w.now)
	if part, ok := p.For(w.window, begin); ok {
		most := part.Of(w.policy.Limit.Spec().Count)
		got += most - r.used[begin]
		r.used[begin] = most
	}
	return got
}

// want demands what a region can spend.
func (w *reserves) want(name string, units int64, what string) {
	w.t.Helper()
	if got := w.spend(name); got != units {
		w.t.Errorf("%s: %s spends %d units, want %d", what, name, got, units)
	}
}
