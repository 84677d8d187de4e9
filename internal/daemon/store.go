package daemon

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/telemetry"
)

// counters is the store that the configuration names, and what belongs to it.
type counters struct {
	engine.Store
	cache    *leasecache.Store                       // nil: no lease cache
	far      *leasecache.Store                       // of the tier above; nil: there is none
	divided  *aggregator.Store                       // divides limits among regions; nil: there are none
	raw      engine.Store                            // without a cache
	record   func(region string) engine.Cell         // of the record of its reserve; nil: this process is the region
	fall     engine.Fallback                         // remembers denials of a failing store; nil without a lease cache
	cell     engine.Cell                             // of this process or, in Redis, of all aggregators
	state    string                                  // the state file; empty: there is none
	replicas func() int                              // live ones, as far as is known
	listed   atomic.Int64                            // replicas of the region in Consul, by its last answer
	holders  func() int                              // of all replicas; nil: this one has all
	count    func(live func(time.Duration) []uint64) // makes holders count these; nil without Redis
	begin    func(holders func() int)                // prepares for the first grant to so many holders
	end      func()                                  // saves the counters when nothing is granted any more
	run      []func(context.Context) error
}

// newCounters makes the store, behind a lease cache if the configuration has one.
func newCounters(cfg *Config, p Program, r *telemetry.Registry, tracer *telemetry.Tracer, ready *admin.Readiness, log *slog.Logger) (*counters, error) {
	c := &counters{begin: func(func() int) {}, end: func() {}}
	if len(cfg.Redis) == 0 {
		if err := c.useMemory(cfg, r, log); err != nil {
			return nil, err
		}
	} else if err := c.useRedis(cfg, r, tracer, ready, log); err != nil {
		return nil, err
	}
	c.raw = c.Store
	if cfg.Front == "on" || cfg.Front == "auto" && len(cfg.Redis) > 0 && !p.Divides {
		c.cache = leasecache.New(leasecache.Config{
			Store: c.Store, MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory), Timeout: max(cfg.RedisOf.Timeout, p.CallTime),
		})
		c.Store, c.fall, c.run = c.cache, c.cache, append(c.run, c.cache.Run)
	}
	if p.Divides {
		c.divided = aggregator.New(aggregator.Config{
			Store: c.Store, MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory), Metrics: r, Log: log,
			Cell: c.sharesCell(log), Alone: len(cfg.Redis) == 0, Undecided: undecided(ready),
		})
		c.Store, c.run = c.divided, append(c.run, c.divided.Run)
	}
	return c, nil
}

func (c *counters) useMemory(cfg *Config, r *telemetry.Registry, log *slog.Logger) error {
	store := memory.New(memory.Config{MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory)})
	observeMemory(store, r)
	c.Store, c.cell, c.run = store, store.NewCell(), append(c.run, store.Run)
	c.replicas = func() int { return c.expected(cfg) }
	if path := cfg.StateFile(os.Getenv); path != "" {
		k, err := newKeeper(path, cfg.StateInterval, store, r, log)
		if err != nil {
			return err
		}
		if k != nil {
			c.state, c.holders, c.begin, c.end = path, k.formerHolders, k.begin, k.end
			c.run = append(c.run, k.Run)
		}
	}
	return nil
}

func (c *counters) useRedis(cfg *Config, r *telemetry.Registry, tracer *telemetry.Tracer, ready *admin.Readiness, log *slog.Logger) error {
	store, err := newRedis(cfg, r, tracer, log)
	if err != nil {
		return err
	}
	store.Observe(r)
	c.Store, c.holders, c.count, c.record = store, store.Holders, store.CountHolders, store.Record
	c.cell = store.Shares()
	c.replicas = func() int {
		if n := store.Replicas(); n > 0 {
			return n
		}
		return c.expected(cfg)
	}
	ready.Refuse(redisSilent) // before anything is served
	c.run = append(c.run, store.Run, func(ctx context.Context) error { return awaitRedis(ctx, store, ready, log) })
	return nil
}

// sharesCell is the cell of the aggregators on the store: without Redis that of this process, beside the state file.
func (c *counters) sharesCell(log *slog.Logger) engine.Cell {
	if c.state == "" {
		return c.cell
	}
	return newKeptCell(c.state+".shares", c.cell, log)
}

// undecided makes readiness follow whether an aggregator decides: regions go elsewhere while it does not.
func undecided(ready *admin.Readiness) func(reason string) {
	last := ""
	return func(reason string) {
		if reason != "" {
			ready.Refuse(reason)
		}
		if last != "" {
			ready.Allow(last)
		}
		last = reason
	}
}

// expected is how many replicas there are as long as no store counts them.
func (c *counters) expected(cfg *Config) int { return max(cfg.Replicas, int(c.listed.Load())) }

// caches are the lease caches.
func (c *counters) caches() (all []*leasecache.Store) {
	for _, cache := range []*leasecache.Store{c.cache, c.far} {
		if cache != nil {
			all = append(all, cache)
		}
	}
	return all
}

// Run runs what has to run behind the store.
func (c *counters) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	for _, run := range c.run {
		tasks.Go(func() error { return run(ctx) })
	}
	return tasks.Wait()
}

// drainTime bounds the return of leases when the service ends.
const drainTime = time.Second

// drain returns the unspent leases of the caches while the stores still run, so that the
// other replicas need not wait until these leases end.
func (c *counters) drain(log *slog.Logger) {
	caches := c.caches()
	if len(caches) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	drained := make([]leasecache.Drained, len(caches))
	var all sync.WaitGroup
	for i, cache := range caches {
		all.Go(func() { drained[i] = cache.Drain(ctx) })
	}
	all.Wait()
	var d leasecache.Drained
	for _, one := range drained {
		d.Units, d.Lost, d.Owed = d.Units+one.Units, d.Lost+one.Lost, d.Owed+one.Owed
	}
	if d.Lost > 0 || d.Owed > 0 {
		log.Warn("could not return all leases; lost units are free when their leases end", "units", d.Units, "lost", d.Lost, "owed", d.Owed)
		return
	}
	log.Info("returned unspent leases", "units", d.Units)
}

// observeMemory declares the metrics of the memory store.
func observeMemory(s *memory.Store, r *telemetry.Registry) {
	r.GaugeFunc("weir_store_keys", "Counters in memory.", func() float64 { return float64(s.Stats().Keys) })
	r.GaugeFunc("weir_store_bytes", "Memory that they take.", func() float64 { return float64(s.Stats().Bytes) })
	r.CounterFunc("weir_store_evictions_total", "Counters forgotten, all of them as good as new.", func() float64 { return float64(s.Stats().Evicted) })
	r.CounterFunc("weir_store_full_total", "Wants answered unavailable because there was no room for their key.", func() float64 { return float64(s.Stats().Refused) })
}

// observeCaches declares the metrics of the lease caches, of all together.
func observeCaches(caches []*leasecache.Store, r *telemetry.Registry) {
	stats := func(of func(leasecache.Stats) float64) func() float64 {
		return func() (sum float64) {
			for _, cache := range caches {
				sum += of(cache.Stats())
			}
			return sum
		}
	}
	r.GaugeFunc("weir_front_keys", "Keys in the lease cache.", stats(func(s leasecache.Stats) float64 { return float64(s.Keys) }))
	r.CounterFunc("weir_front_leased_total", "Wants answered from a lease in the cache.", stats(func(s leasecache.Stats) float64 { return float64(s.Leased) }))
	r.CounterFunc("weir_front_denied_total", "Wants answered from a denial in the cache.", stats(func(s leasecache.Stats) float64 { return float64(s.Denied) }))
	r.CounterFunc("weir_front_failed_total", "Wants answered unavailable by the cache, because the store did not answer just before.", stats(func(s leasecache.Stats) float64 { return float64(s.Failed) }))
	r.CounterFunc("weir_front_asked_total", "Asks that the cache sent to the store.", stats(func(s leasecache.Stats) float64 { return float64(s.Asked) }))
	r.CounterFunc("weir_front_evicted_total", "Keys that gave up their place in the cache to others, with leases given back or a denial forgotten.", stats(func(s leasecache.Stats) float64 { return float64(s.Evicted) }))
	r.CounterFunc("weir_front_full_total", "Times that no key in the cache could give up its place, so that an ask went to the store as it was.", stats(func(s leasecache.Stats) float64 { return float64(s.Full) }))
}
