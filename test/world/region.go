package world

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/internal/upstream/client"
)

// Region is one below an aggregator: the store that its replicas have in common, for the rules that it
// counts itself, its reserve and its trickle.
type Region struct {
	Name  string
	Net   Net // between its replicas and the aggregator
	Notes any // the observer's

	w      *World
	ahead  atomic.Int64 // by how much the clock of its store is ahead, in µs
	memory *memory.Store

	mu   sync.Mutex
	cell engine.Cell
}

func newRegion(w *World, name string) *Region {
	h := &Region{w: w, Name: name, Net: w.config.AggregatorNet}
	h.LoseStore()
	return h
}

// LoseStore gives the region an empty store.
func (h *Region) LoseStore() {
	h.memory = memory.New(memory.Config{MaxKeys: h.w.most(), MaxBytes: maxBytes, Now: h.Clock})
	cell := h.w.config.Observer.Cell(h, h.memory.NewCell())
	h.mu.Lock()
	h.cell = cell
	h.mu.Unlock()
}

// Clock is that of its store, also for goroutines of the product.
func (h *Region) Clock() limit.Micros { return h.w.Clock() + limit.Micros(h.ahead.Load()) }

// StepClock sets it forward or back.
func (h *Region) StepClock(by limit.Micros) { h.ahead.Add(int64(by)) }

// Swap is called by goroutines of its replicas: its store keeps the record of its reserve.
func (h *Region) Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cell.Swap(ctx, old, next)
}

// Acquire asks its store.
func (h *Region) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	h.memory.Acquire(ctx, asks, grants)
}

// replica is the store of one of the region's replicas: the region's own, the aggregator behind a lease cache,
// and the region's reserve. c is the configuration of the cache.
func (h *Region) replica(ctx context.Context, l *Life, c leasecache.Config) engine.Store {
	keeper := upstream.NewKeeper(upstream.KeeperConfig{
		Cell: h, Region: h.Name, Windows: func() []reserve.Window { return h.w.windows },
	})
	calls, err := client.New(client.Config{
		Addresses: []string{"aggregator"}, Region: h.Name, Reserve: keeper, Transport: &wired{l.Tier.Link, l},
		Rules: func() (string, uint64) { return l.Service.RulesVersion() }, Jitter: h.w.jitter(),
	})
	must(err)
	l.share = func() uint32 {
		if regions := h.w.rules.Regions(); len(regions) > 0 {
			return uint32(max(keeper.ShareBy(regions), 1))
		}
		return 0
	}
	raw := &ownStore{h.w.wraps(h, Own, l), l}
	near := c
	near.Store, near.Timeout, near.Answers, near.Replicas = raw, 0, 0, nil
	c.Store = calls
	far, own := leasecache.New(c), leasecache.New(near)
	for i, run := range []func(context.Context) error{calls.Run, far.Run, own.Run, keeper.Run} {
		go func() {
			if h.w.config.NoJitter { // so that no two of them do something at the same instant
				time.Sleep(time.Duration(i+1) * 10 * time.Microsecond)
			}
			_ = run(ctx)
		}()
	}
	all := upstream.New(upstream.Config{Aggregator: far, Own: own, Raw: raw, Keeper: keeper, RuleUnknown: calls.RuleUnknown, Metrics: telemetry.NewRegistry("")})
	return engine.ByScope(raw, all)
}

// ownStore is the region's own store, as one of its replicas calls it.
type ownStore struct {
	engine.Store
	of *Life
}

// Acquire is called by goroutines of the replica. All are answered at the same instant, but in order, and none of a replica that
// has ended.
func (s *ownStore) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if len(asks) == 0 {
		return
	}
	asks = copied(asks)
	answer := make(chan []lease.Grant, 1)
	m := &s.of.Tier.w.mail
	m.post(postOf(asks, asks[0].Policy.Rule+s.of.Tier.Name, func() {
		if s.of.Over {
			return
		}
		granted := make([]lease.Grant, len(asks))
		s.Store.Acquire(context.Background(), asks, granted)
		m.stirred = true
		answer <- granted
	}))
	await(ctx, answer, grants)
}
