package world

import (
	"cmp"
	"context"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/limit"
)

// counters are the store of the topmost tier. They run in the run's own goroutine only.
type counters struct {
	engine.Store // the memory, or an aggregator over it
	w            *World
	divided      *aggregator.Store // nil: there is one region
	stop         context.CancelFunc
}

func newCounters(w *World) *counters {
	s := &counters{w: w, stop: func() {}}
	most := cmp.Or(w.config.MaxCounters, 1<<20)
	store := memory.New(memory.Config{MaxKeys: most, MaxBytes: w.config.MaxBytes, Now: s.clock})
	s.Store = store
	if !w.config.divided() {
		return s
	}
	ctx, stop := context.WithCancel(context.Background())
	c := aggregator.Config{Store: store, MaxKeys: most, MaxBytes: w.config.MaxBytes, Now: s.clock, Steady: w.virtual}
	if !w.config.Plain {
		c.Cell = store.NewCell()
	}
	s.divided, s.stop = aggregator.New(c), stop
	s.divided.SetRegions(w.rules.Regions())
	s.Store = s.divided
	go func() { _ = s.divided.Run(ctx) }()
	return s
}

func (s *counters) clock() limit.Micros { return s.w.wall() }
