package world

import (
	"cmp"
	"context"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/internal/upstream/client"
)

// region is one below an aggregator: the store that its replicas have in common, for the rules that it
// counts itself, its reserve and its trickle.
type region struct {
	w      *World
	name   string
	memory *memory.Store
	cell   engine.Cell
}

func newRegion(w *World, name string) *region {
	h := &region{w: w, name: name}
	h.memory = memory.New(memory.Config{MaxKeys: cmp.Or(w.config.MaxCounters, 1<<20), MaxBytes: w.config.MaxBytes, Now: w.wall})
	h.cell = h.memory.NewCell()
	return h
}

// replica is the store of one of the region's replicas: the region's own, the aggregator behind a lease cache,
// and the region's reserve. c is the configuration of the cache.
func (h *region) replica(ctx context.Context, l *life, c leasecache.Config) (engine.Store, error) {
	keeper := upstream.NewKeeper(upstream.KeeperConfig{
		Cell: h.cell, Region: h.name, Windows: func() []reserve.Window { return h.w.windows },
	})
	calls, err := client.New(client.Config{
		Addresses: []string{"aggregator"}, Region: h.name, Reserve: keeper, Transport: &wired{l.tier.link, l},
		Rules: func() (string, uint64) { return l.service.RulesVersion() },
	})
	if err != nil {
		return nil, err
	}
	raw := &ownStore{h, l}
	near := c
	near.Store, near.Timeout, near.Answers, near.Replicas = raw, 0, 0, nil
	c.Store = calls
	far, own := leasecache.New(c), leasecache.New(near)
	for _, run := range []func(context.Context) error{calls.Run, far.Run, own.Run, keeper.Run} {
		go func() { _ = run(ctx) }()
	}
	all := upstream.New(upstream.Config{Far: far, Own: own, Raw: raw, Keeper: keeper, Lacks: calls.Lacks, Metrics: telemetry.NewRegistry("")})
	return engine.ByScope(raw, all), nil
}

// ownStore is the region's own store, as one of its replicas calls it.
type ownStore struct {
	*region
	of *life
}

func (s *ownStore) Epoch() uint64 { return s.memory.Epoch() }

// Acquire is called by goroutines of the replica. All are answered at the same instant, but in order.
func (s *ownStore) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	asks = copied(asks)
	answer := make(chan []lease.Grant, 1)
	a := &asks[0]
	s.w.mail.post(post{name: a.Policy.Rule + s.of.tier.name, key: string(a.Key), n: uint64(a.Want.Want), m: uint64(a.Want.Unused), do: func() {
		granted := make([]lease.Grant, len(asks))
		s.memory.Acquire(context.Background(), asks, granted)
		s.w.mail.stirred = true
		answer <- granted
	}})
	select {
	case granted := <-answer:
		copy(grants, granted)
	case <-ctx.Done():
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
	}
}
