package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

const eu, us = "eu", "us"

// shares are those of the regions in these tests.
var shares = map[string]reserve.PerMille{eu: 250, us: 750}

// aggregator counts fixed windows exactly, and withholds what package reserve says.
type aggregator struct {
	mu      sync.Mutex
	shares  reserve.Shares
	granted map[string]int64 // by rule and window
	debts   map[string]int64 // by rule
}

func clock() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }

// call is a call of a region without wants.
func (g *aggregator) call(region string, s reserve.Statement) (reserve.Reply, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next, _, err := g.shares.Heard(region, s, clock(), shares[region])
	if err != nil {
		return reserve.Reply{}, err
	}
	g.shares, _ = next.Issued(region, shares[region], clock())
	return g.shares.Reply(region, s.ID, clock()), nil
}

func (g *aggregator) acquire(a *engine.Ask) lease.Grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	spec := a.Policy.Limit.Spec()
	w := reserve.WindowOf(spec)
	begin := w.Begin(clock())
	at := fmt.Sprint(a.Policy.Rule, begin)
	back := int64(0)
	if a.Want.Lease == a.Policy.Limit.PeriodID(begin) {
		back = a.Want.Unused
	}
	g.granted[at] -= back
	left := g.shares.Withheld(w, w.Begin(clock())).Without(spec.Count) - g.granted[at]
	out := lease.Grant{Status: lease.OK, Limit: spec.Count, Remaining: max(0, left), Lease: a.Policy.Limit.PeriodID(begin)}
	if a.Want.Need > left {
		out.Status, out.AskAfter = lease.Denied, 100
		return out
	}
	out.Granted = min(a.Want.Want, left)
	g.granted[at] += out.Granted
	return out
}

// region is a replica of a region, in memory.
type region struct {
	t      *testing.T
	global *aggregator
	cell   *cell
	own    *memory.Store // its counters
	keeper *upstream.Keeper
	store  *upstream.Store
	log    proc.Lines

	cut         atomic.Bool   // no call arrives
	late        bool          // wants are not decided, calls are answered
	takes       time.Duration // that the aggregator takes to decide on wants
	unknownRule string        // a rule that the aggregator does not have
	returned    atomic.Int64  // units that were given back to the aggregator
	left        atomic.Int64  // time.Duration that it had for the last wants

	ahead   limit.Micros // the clock of the counters, beside that of the record
	counted int          // asks of the region's store
}

// counting is the region's own store: for the reserve or, raw, for the trickle.
type counting struct {
	engine.Store
	r   *region
	raw bool
}

func (c counting) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	c.r.counted += len(asks)
	for i := range asks {
		if rule := asks[i].Policy.Rule; strings.HasPrefix(rule, "trickle of ") != c.raw {
			c.r.t.Errorf("%s is asked for at the wrong store", rule)
		}
	}
	c.Store.Acquire(ctx, asks, grants)
}

// cell is a cell that fails, or has something else.
type cell struct {
	engine.Cell
	fails atomic.Bool
}

func (c *cell) Swap(ctx context.Context, old, next []byte) ([]byte, limit.Micros, error) {
	if c.fails.Load() {
		return nil, 0, context.DeadlineExceeded
	}
	return c.Cell.Swap(ctx, old, next)
}

// set replaces the value by another one.
func (c *cell) set(text []byte) {
	for {
		old, _, _ := c.Cell.Swap(context.Background(), nil, nil)
		if found, _, _ := c.Cell.Swap(context.Background(), old, text); bytes.Equal(found, old) {
			return
		}
	}
}

// Acquire is the way to the aggregator.
func (r *region) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	ends, _ := ctx.Deadline()
	r.left.Store(int64(time.Until(ends)))
	lost := r.cut.Load() || r.late
	if r.takes > 0 {
		select {
		case <-ctx.Done():
			lost = true
		case <-time.After(r.takes):
		}
	}
	for i := range asks {
		r.returned.Add(asks[i].Want.Unused)
		if grants[i] = (lease.Grant{Status: lease.Unavailable}); !lost && asks[i].Policy.Rule != r.unknownRule {
			grants[i] = r.global.acquire(&asks[i])
		}
	}
	for i := range asks { // a group is granted all or none
		if engine.IsDenied(asks, grants) && asks[i].Group != 0 && grants[i].Status == lease.OK {
			r.global.acquire(&engine.Ask{Policy: asks[i].Policy, Want: lease.Want{Unused: grants[i].Granted, Lease: grants[i].Lease}})
			grants[i].Granted = 0
		}
	}
}

func (r *region) Owe(a *engine.Ask, units int64) {
	r.global.mu.Lock()
	defer r.global.mu.Unlock()
	r.global.debts[a.Policy.Rule] += units
}

func (r *region) Fall(a *engine.Ask, holders int) engine.Judgment {
	return engine.Judgment{Admitted: true, Grant: lease.Grant{Remaining: int64(holders)}}
}

func (r *region) Refund(*engine.Ask, *engine.Judgment) {}

// inWorld runs a test in a bubble, at the begin of a minute, on the region eu, which has called its aggregator.
func inWorld(t *testing.T, test func(*region)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &region{t: t, cell: &cell{Cell: memory.New(memory.Config{}).NewCell()}}
		r.global = &aggregator{granted: map[string]int64{}, debts: map[string]int64{}}
		now := func() limit.Micros { return clock() + r.ahead }
		r.own = memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30, Now: now})
		r.keeper = upstream.NewKeeper(upstream.KeeperConfig{
			Cell: r.cell, Region: eu, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
			Windows: func() []reserve.Window {
				return []reserve.Window{{Period: limit.Minute}, {Period: 10 * limit.Second, LooksBack: true}}
			},
		})
		r.store = upstream.New(upstream.Config{
			Aggregator: r, Own: counting{r.own, r, false}, Raw: counting{r.own, r, true},
			Keeper: r.keeper, Metrics: telemetry.NewRegistry(""),
			RuleUnknown: func(rule string) bool { return rule == r.unknownRule },
		})
		var running sync.WaitGroup
		running.Go(func() { _ = r.keeper.Run(t.Context()) })
		running.Go(func() { r.beat(t.Context()) })
		t.Cleanup(running.Wait)
		time.Sleep(50 * time.Second)
		test(r)
	})
}

// beat calls the aggregator, which takes 100 ms.
func (r *region) beat(ctx context.Context) {
	for ctx.Err() == nil {
		s, ok := r.keeper.Statement()
		sent := time.Now()
		time.Sleep(50 * time.Millisecond)
		if ok && !r.cut.Load() {
			p, err := r.global.call(eu, s)
			time.Sleep(50 * time.Millisecond)
			if err != nil {
				r.keeper.Rejected(s.ID, err.Error())
			} else {
				r.keeper.Replied(sent, p)
			}
		}
		time.Sleep(400 * time.Millisecond)
	}
}

// logs is what the log has by now.
func (r *region) logs() string {
	synctest.Wait()
	return strings.Join(r.log.With(), "")
}

// link cuts the region off from the aggregator, or connects it.
func (r *region) link(up bool) { r.cut.Store(!up) }

// policy is that of a rule with shares, exact.
func (r *region) policy(name string, s limit.Spec) *engine.Policy {
	r.t.Helper()
	l := fatal.Get(limit.New(s))(r.t)
	p := engine.NewPolicy(name, 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0))
	p.Scope, p.OnFailure = rule.ScopeGlobal, lease.FailureLocal
	p.Regions = rule.Regions{{Name: eu, Weight: 1}, {Name: us, Weight: 3}}
	return p
}

func perMinute(n int64) limit.Spec {
	return limit.Spec{Algorithm: limit.FixedWindow, Count: n, Period: limit.Minute}
}

func need(p *engine.Policy, units int64) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Need: units, Waiting: units, Want: units}}
}

func (r *region) acquire(asks ...engine.Ask) []lease.Grant {
	grants := make([]lease.Grant, len(asks))
	r.store.Acquire(context.Background(), asks, grants)
	return grants
}

// spend takes units one by one until none is left.
func (r *region) spend(p *engine.Policy) (got int64) {
	r.t.Helper()
	for {
		g := r.acquire(need(p, 1))[0]
		if g.Status == lease.Denied {
			return got
		}
		if got++; g.Status != lease.OK || g.StillOwed || g.Limit != p.Terms.Capacity || got > 1000 {
			r.t.Fatalf("%+v", g)
		}
	}
}

// spends demands that a region can spend so many units.
func (r *region) spends(p *engine.Policy, want int64, when string) {
	r.t.Helper()
	if got := r.spend(p); got != want {
		r.t.Errorf("%d units %s, want %d", got, when, want)
	}
}

// admits demands that a region admits least to most units in a time.
func (r *region) admits(p *engine.Policy, d time.Duration, least, most int64, when string) {
	r.t.Helper()
	if got := r.during(p, d); got < least || got > most {
		r.t.Errorf("%d units %s", got, when)
	}
}

// during spends every 200 ms for so long.
func (r *region) during(p *engine.Policy, d time.Duration) (got int64) {
	r.t.Helper()
	for ends := time.Now().Add(d); time.Now().Before(ends); time.Sleep(200 * time.Millisecond) {
		got += r.spend(p)
	}
	return got
}

// stored is the record in the region's store.
func (r *region) stored() string {
	r.t.Helper()
	text, _, err := r.cell.Cell.Swap(context.Background(), nil, nil)
	fatal.If(r.t, err)
	return string(text)
}
