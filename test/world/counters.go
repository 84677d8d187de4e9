package world

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/limit"
)

// counters are the store of the topmost tier. They run in the run's own goroutine only.
type counters struct {
	engine.Store // the memory, or an aggregator over it
	w            *World
	step         atomic.Int64 // by how much the clock is ahead, in µs
	memory       *memory.Store
	cell         engine.Cell
	divided      *aggregator.Store // nil: there is one region
	stop         context.CancelFunc
}

func newCounters(w *World) *counters {
	s := &counters{w: w, stop: func() {}}
	s.reset()
	return s
}

// reset begins a life without the counters of the one before.
func (s *counters) reset() {
	s.memory = memory.New(memory.Config{MaxKeys: s.w.most(), MaxBytes: maxBytes, Now: s.clock})
	s.cell = s.memory.NewCell()
	s.divide()
}

// most is how many counters a store may have.
func (w *World) most() int { return cmp.Or(w.config.MaxCounters, 1<<20) }

// divide begins a life of the process that asks the store.
func (s *counters) divide() {
	store := engine.Store(s.memory)
	if s.w.config.divided() {
		s.stop()
		ctx, stop := context.WithCancel(context.Background())
		c := aggregator.Config{Store: s.memory, MaxKeys: s.w.most(), MaxBytes: maxBytes, Now: s.clock, Steady: s.w.virtual}
		if !s.w.config.Plain {
			c.Cell = s.cell
		}
		divided := aggregator.New(c)
		divided.SetRegions(s.w.rules.Regions())
		go func() { _ = divided.Run(ctx) }()
		store, s.divided, s.stop = divided, divided, stop
	}
	s.Store = s.w.wraps(store, Counters, nil)
}

func (s *counters) clock() limit.Micros { return s.w.Clock() + limit.Micros(s.step.Load()) }

// Counters are those of the topmost tier, behind all that divides them, and their clock.
func (w *World) Counters() (store *memory.Store, now limit.Micros) {
	return w.counters.memory, w.counters.clock()
}

// LoseCounters empties the store of the topmost tier.
func (w *World) LoseCounters() { w.counters.reset() }

// Restart makes the topmost tier begin anew. Its store keeps what it has.
func (w *World) Restart() {
	w.counters.divide()
	w.Tiers[0].again()
}

// StepClock sets the clock of the topmost tier forward or back.
func (w *World) StepClock(by limit.Micros) { w.counters.step.Add(int64(by)) }
