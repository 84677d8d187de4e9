// Package aggregator is the store of the aggregator. It divides each limit among the regions that ask for it, by the rule's
// fair, and counts the units of each region. The store behind it decides how many units there are.
package aggregator

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/fair"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// others is the name of the regions beyond reserve.MaxRegions, which count as one.
	others = "others"
	// sweepCalls is in how many parts the table is scanned: all of it every 10 s.
	sweepCalls = 100
)

// Config is what a [Store] is made of.
type Config struct {
	Store engine.Store
	// MaxKeys and MaxBytes bound the keys that are kept, and the memory for that; at least 1. A key
	// takes 170 bytes, its length, and 72 more for each region. The keys for which one region asked
	// first fill at most half of both. A want for a key for which there is no room is unavailable.
	MaxKeys  int
	MaxBytes int64
	// Now is the clock; nil means the system's. Steady is one that never steps; nil means Now if that is set, else the
	// process's.
	Now, Steady func() limit.Micros
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
	config   Config // complete
	table    *table.Table[key]
	reserves reserves

	asked, granted, denied, returned, unitsRejected, keysRejected *telemetry.CounterVec
	owned                                                         *telemetry.GaugeVec

	mu      sync.RWMutex
	regions map[string]*region
}

// region is one of those that have called.
type region struct {
	id                               uint64
	asked, granted, denied, returned telemetry.Counter
	account
}

// New makes a store that has not been called.
func New(c Config) *Store {
	if c.Steady == nil {
		began := time.Now()
		if c.Steady = c.Now; c.Now == nil {
			c.Steady = func() limit.Micros { return limit.Micros(began.UnixMicro() + time.Since(began).Microseconds()) }
		}
	}
	if c.Now == nil {
		c.Now = func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	}
	c.Metrics, c.Log = cmp.Or(c.Metrics, telemetry.NewRegistry("")), cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.MaxKeys, c.MaxBytes = max(c.MaxKeys, 1), max(c.MaxBytes, 1)
	if c.Undecided == nil {
		c.Undecided = func(string) {}
	}
	s := &Store{
		reserves: reserves{
			config: c, wake: make(chan struct{}, 1),
			stated: map[string]reserve.Statement{}, speaks: map[string]*speaker{}, dead: map[string]bool{},
			withheldOf: c.Metrics.Gauges("weir_region_withheld", "Thousandths of each limit that are withheld for a region in a window that begins now: it is cut off, or gone.", "region"),
		},
		config: c, regions: map[string]*region{}, table: table.New[key](c.MaxKeys, c.MaxBytes),
		asked:         c.Metrics.Counters("weir_region_wants_total", "Wants of the replicas of a region.", "region"),
		granted:       c.Metrics.Counters("weir_region_units_granted_total", "Units granted to a region.", "region"),
		denied:        c.Metrics.Counters("weir_region_units_denied_total", "Units that a region rejected to its clients from memory, or that were denied to it while requests waited.", "region"),
		returned:      c.Metrics.Counters("weir_region_units_returned_total", "Unspent units that a region gave back.", "region"),
		unitsRejected: c.Metrics.Counters("weir_region_units_rejected_total", "Units that a region reported and that do not count: returned (given back, but not granted to it) or overdrawn (admitted without a lease, beyond its part of the limit).", "region", "kind"),
		keysRejected:  c.Metrics.Counters("weir_region_keys_rejected_total", "Wants of a region answered as unavailable because there was no room for their key: it has half of all keys, or the table is full.", "region"),
		owned:         c.Metrics.Gauges("weir_region_keys", "Keys for which a region asked first, of those that are kept.", "region"),
	}
	if c.Cell != nil {
		c.Metrics.GaugeFunc("weir_aggregator_undecided", "1 while calls of regions are rejected as a whole, because nothing can be decided.", s.reserves.rejects)
	}
	return s
}

// Acquire withholds from each ask what is meant for other regions, and what those may use of their reserves, and passes
// it on. It changes the asks.
func (s *Store) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	now := s.time()
	var rejected []int
	for i := range asks {
		if a := &asks[i]; a.Region != "" && !a.Op.Operates() {
			a.Policy = s.reserves.without(a)
			if !s.ask(now, a) {
				rejected = append(rejected, i)
			}
		}
	}
	s.config.Store.Acquire(ctx, asks, grants)
	for i := range asks {
		if len(rejected) > 0 && rejected[0] == i {
			grants[i], rejected = lease.Grant{Status: lease.Unavailable}, rejected[1:]
		} else if a := &asks[i]; a.Op == engine.Reset {
			s.forgetReset(a)
		} else if a.Region != "" && a.Op != engine.Look {
			s.answered(now, a, &grants[i])
		}
	}
}

// SetRegions replaces the regions that have shares by the rules. Call it before the policies with these regions are used.
func (s *Store) SetRegions(rs rule.Regions) { s.reserves.setRegions(rs) }

// Run exchanges with other aggregators what is known of the reserves of regions, and forgets keys that nobody has asked
// for lately, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	if s.config.Cell != nil {
		running.Go(func() { s.reserves.run(ctx) })
	}
	table.SweepAll(ctx, sweepCalls, func(part float64) {
		s.table.Sweep(part, func(shard *table.Shard[key], n int) {
			now := s.time()
			forget(shard, n, func(e *table.Entry[key]) bool { return e.Value.Idle(e.Policy.Limit, &e.Policy.Terms, now) })
		})
	})
	return nil
}

// time is that of the store with the counters, as far as it is known: its windows are those of the account.
func (s *Store) time() limit.Micros {
	r := &s.reserves
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.synced == 0 {
		return s.config.Now()
	}
	return r.config.Steady() + r.ahead
}

// Keys is of how many keys the demands of regions are kept.
func (s *Store) Keys() int {
	keys, _ := s.table.Size()
	return keys
}

// ask notes what the ask of a region reports, takes out what cannot be true, and withholds units from it. It
// reports whether there is room for the key: else the ask asks for nothing any more.
func (s *Store) ask(now limit.Micros, a *engine.Ask) bool {
	r, w, p := s.region(a.Region), &a.Want, a.Policy
	part := s.partOf(p, a.Region)
	r.asked.Inc()
	if p.Limit.Concurrent() { // no rule that regions share
		return true
	}
	r.denied.Add(float64(w.Denied))
	var d fair.Dropped
	room := s.with(now, r, a, func(shares *fair.Shares) {
		d = shares.Ask(p.Limit, &p.Terms, p.Sharing == rule.SharingEqual, now, r.id, part, w)
	})
	if !room {
		d = withoutKey(w)
	}
	s.drop(r, a, d)
	r.returned.Add(float64(w.Unused))
	if room || w.Want == 0 {
		return true
	}
	s.reject(r, a)
	*w = lease.Want{}
	return false
}

// answered notes the answer.
func (s *Store) answered(now limit.Micros, a *engine.Ask, g *lease.Grant) {
	r, p := s.region(a.Region), a.Policy
	r.granted.Add(float64(g.Granted))
	if g.Status == lease.Denied {
		r.denied.Add(float64(a.Want.Waiting))
	}
	if p.Limit.Concurrent() {
		return
	}
	s.with(now, r, a, func(shares *fair.Shares) {
		shares.Granted(p.Limit, &p.Terms, now, r.id, &a.Want, g)
	})
	if p.Whole != nil && g.Status <= lease.Denied {
		g.Limit = p.Whole.Terms.Capacity // clients see the limit of the rule
	}
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
	if len(s.regions) >= reserve.MaxRegions && s.regions[name] == nil {
		name = others
	}
	if r = s.regions[name]; r == nil {
		r = &region{
			id: uint64(len(s.regions)), asked: s.asked.WithLabelValues(name), granted: s.granted.WithLabelValues(name),
			denied: s.denied.WithLabelValues(name), returned: s.returned.WithLabelValues(name),
			account: account{
				owned: s.owned.WithLabelValues(name), keysRejected: s.keysRejected.WithLabelValues(name),
				notHad: s.unitsRejected.WithLabelValues(name, "returned"), overdrawn: s.unitsRejected.WithLabelValues(name, "overdrawn"),
			},
		}
		s.regions[name] = r
	}
	return r
}
