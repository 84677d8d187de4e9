// Package aggregator is the store of the aggregator: it divides each limit among the regions
// that ask for it, by the rule's fair, and counts what each of them gets. The store behind
// it decides how much there is.
package aggregator

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/fair"
	"github.com/weirlimit/weir/internal/lease/silence"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// MaxRegions bounds the regions that are counted separately. Those beyond it count as one more.
	MaxRegions = 64
	// others is the name of those beyond it.
	others = "others"
	// sweepCalls is in how many parts the table is scanned: all of it every 10 s.
	sweepCalls = 100
)

// Config is what a [Store] is made of.
type Config struct {
	Store engine.Store
	// MaxKeys and MaxBytes bound the keys of which the demands of regions are kept, and the
	// memory for that; at least 1. A key takes 200 bytes and 64 more for each region. Where
	// there is no room for a key, whoever asks first gets its units.
	MaxKeys  int
	MaxBytes int64
	// Now is the clock; nil means the system's. Steady is the one by which regions are silent: it
	// never steps; nil means Now if that is set, else the process's.
	Now, Steady func() limit.Micros
	// Exchange shares with other aggregators on the same store when regions were silent; nil: there are none.
	Exchange Exchange
	// Cell has what all aggregators on one store know of the reserves of regions; nil: no region has one. Alone:
	// no other aggregator has it.
	Cell  engine.Cell
	Alone bool
	// Undecided is called when this aggregator cannot decide any more, with the reason, and with an empty one when
	// it can again; it must not call back. nil: nothing is called.
	Undecided func(reason string)
	Metrics   *telemetry.Registry // nil: metrics go nowhere
	Log       *slog.Logger        // nil: nothing is logged
}

// Store divides limits among regions. It is safe for concurrent use.
type Store struct {
	below    engine.Store
	now      func() limit.Micros
	table    *table.Table[fair.Shares]
	links    links
	reserves reserves

	asked, granted, denied, returned *telemetry.CounterVec

	mu      sync.RWMutex
	regions map[string]*region
}

// region is one of those that have called.
type region struct {
	id                               uint64
	asked, granted, denied, returned telemetry.Counter
}

// New makes a store that has not been called.
func New(c Config) *Store {
	if c.Steady == nil {
		began := time.Now()
		if c.Steady = c.Now; c.Now == nil {
			c.Steady = func() limit.Micros { return limit.Micros(began.UnixMicro() + time.Since(began).Microseconds()) }
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	}
	if c.Metrics == nil {
		c.Metrics = telemetry.NewRegistry("")
	}
	if c.Undecided == nil {
		c.Undecided = func(string) {}
	}
	silent := c.Metrics.Gauges("weir_region_silent", "1 for a region with static shares that has acknowledged no reply for 3 s: its shares are withheld from the others.", "region")
	doubled := c.Metrics.Gauges("weir_region_doubled", "1 for a region with static shares in whose name replicas with two stores call: two regions have one name.", "region")
	s := &Store{
		links: links{
			exchange: c.Exchange, writer: rand.Text(), steady: c.Steady, began: c.Steady(), silent: silent, doubled: doubled, log: c.Log,
			known: map[string]*link{}, before: map[string]silence.Silence{}, shrunk: map[shrunk]*engine.Policy{},
		},
		reserves: reserves{
			cell: c.Cell, alone: c.Alone, steady: c.Steady, log: c.Log, undecided: c.Undecided, wake: make(chan struct{}, 1),
			stated: map[string]reserve.Statement{}, speaks: map[string]*speaker{}, dead: map[string]bool{}, smaller: map[smaller]*engine.Policy{},
			withheldOf: c.Metrics.Gauges("weir_region_withheld", "Thousandths of each limit that are withheld for a region in a window that begins now: it is cut off, or gone.", "region"),
		},
		below: c.Store, now: c.Now, regions: map[string]*region{},
		table:    table.New[fair.Shares](max(c.MaxKeys, 1), max(c.MaxBytes, 1)),
		asked:    c.Metrics.Counters("weir_region_wants_total", "Wants of the replicas of a region.", "region"),
		granted:  c.Metrics.Counters("weir_region_units_granted_total", "Units granted to a region.", "region"),
		denied:   c.Metrics.Counters("weir_region_units_denied_total", "Units that a region refused to its clients from memory, or that were denied to it while requests waited.", "region"),
		returned: c.Metrics.Counters("weir_region_units_returned_total", "Unspent units that a region gave back.", "region"),
	}
	if c.Cell != nil {
		c.Metrics.GaugeFunc("weir_aggregator_undecided", "1 while calls of regions are refused as a whole, because nothing can be decided.", s.reserves.refuses)
	}
	return s
}

// Epoch is that of the store behind.
func (s *Store) Epoch() uint64 { return s.below.Epoch() }

// Acquire withholds from each ask what is meant for other regions, and the static shares of
// those that are silent, and passes it on. It changes the asks.
func (s *Store) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	now := s.now()
	for i := range asks {
		if a := &asks[i]; a.Region != "" {
			if p, known := s.reserves.without(a); known {
				a.Policy = p
			} else {
				a.Policy = s.links.withheld(now, a.Policy)
			}
			s.ask(now, a)
		}
	}
	s.below.Acquire(ctx, asks, grants)
	for i := range asks {
		if a := &asks[i]; a.Region != "" {
			s.answered(now, a, &grants[i])
		}
	}
}

// Run forgets keys that nobody has asked for lately, and reports which regions are silent,
// until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { s.links.watch(ctx) })
	if s.reserves.cell != nil {
		watching.Go(func() { s.reserves.run(ctx) })
	}
	table.SweepAll(ctx, sweepCalls, func(part float64) {
		s.table.Sweep(part, func(shard *table.Shard[fair.Shares], n int) { scan(shard, s.now(), n) })
	})
	return nil
}

// Keys is of how many keys the demands of regions are kept.
func (s *Store) Keys() int {
	keys, _ := s.table.Size()
	return keys
}

// ask notes what the ask of a region reports, and withholds units from it.
func (s *Store) ask(now limit.Micros, a *engine.Ask) {
	r, w, p := s.region(a.Region), &a.Want, a.Policy
	r.asked.Inc()
	r.denied.Add(float64(w.Denied))
	r.returned.Add(float64(w.Unused))
	s.with(now, a, func(shares *fair.Shares) {
		w.Withheld = shares.Ask(p.Limit, &p.Terms, p.Fair == rule.FairEqual, now, r.id, w)
	})
}

// answered notes the answer.
func (s *Store) answered(now limit.Micros, a *engine.Ask, g *lease.Grant) {
	r, p := s.region(a.Region), a.Policy
	r.granted.Add(float64(g.Granted))
	if g.Status == lease.Denied {
		r.denied.Add(float64(a.Want.Waiting))
	}
	s.with(now, a, func(shares *fair.Shares) {
		shares.Granted(p.Limit, &p.Terms, now, r.id, &a.Want, g)
	})
	if p.Whole != nil && g.Status <= lease.Denied {
		g.Limit = p.Whole.Terms.Capacity // clients see the limit of the rule
	}
}

// with calls use with the shares of an ask's key, under their lock. It does not where the
// limit is not divided, or where there is no room.
func (s *Store) with(now limit.Micros, a *engine.Ask, use func(*fair.Shares)) {
	if t := &a.Policy.Terms; !t.Refills && t.Window == 0 {
		return
	}
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	e := shard.Find(hash, a.Policy, a.Key)
	if e == nil {
		if e = shard.Add(hash, a.Policy, a.Key); e == nil {
			scan(shard, now, 16)
			if e = shard.Add(hash, a.Policy, a.Key); e == nil {
				return
			}
		}
	}
	e.Policy = a.Policy
	before := e.Value.Bytes()
	use(&e.Value)
	shard.Took(e.Value.Bytes() - before)
}

// scan forgets those of the next n keys that nobody has asked for lately.
func scan(shard *table.Shard[fair.Shares], now limit.Micros, n int) {
	shard.Scan(n, func(e *table.Entry[fair.Shares]) {
		if e.Value.Idle(e.Policy.Limit, &e.Policy.Terms, now) {
			shard.Took(-e.Value.Bytes())
			shard.Remove(e)
		}
	})
}

// region finds a region by its name.
func (s *Store) region(name string) *region {
	s.mu.RLock()
	r := s.regions[name]
	s.mu.RUnlock()
	if r != nil {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.regions) >= MaxRegions && s.regions[name] == nil {
		name = others
	}
	if r = s.regions[name]; r == nil {
		r = &region{
			id: uint64(len(s.regions)), asked: s.asked.WithLabelValues(name), granted: s.granted.WithLabelValues(name),
			denied: s.denied.WithLabelValues(name), returned: s.returned.WithLabelValues(name),
		}
		s.regions[name] = r
	}
	return r
}
