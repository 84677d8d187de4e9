package tier

import (
	"context"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/front"
	"github.com/weirlimit/weir/internal/limiter/memory"
	"github.com/weirlimit/weir/internal/telemetry"
)

// counters is the store that the configuration names, and what belongs to it.
type counters struct {
	limiter.Store
	cache    *front.Store                            // nil: no lease cache
	keeper   *keeper                                 // nil: the counters are lost at the end
	replicas func() int                              // live ones, as far as is known
	holders  func() int                              // of all replicas; nil: this one has all
	count    func(live func(time.Duration) []uint64) // makes holders count these; nil without Redis
	run      []func(context.Context) error
}

// newCounters makes the store, behind a lease cache if the configuration has one.
// callTime is as in [Program].
func newCounters(cfg *Config, callTime time.Duration, r *telemetry.Registry, ready *admin.Readiness, log *slog.Logger) (*counters, error) {
	c := new(counters)
	if len(cfg.Redis) == 0 {
		c.useMemory(cfg, r, log)
	} else if err := c.useRedis(cfg, r, ready, log); err != nil {
		return nil, err
	}
	if cfg.Front == "on" || cfg.Front == "auto" && len(cfg.Redis) > 0 {
		c.cache = front.New(front.Config{
			Store: c.Store, MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory), Timeout: max(cfg.RedisOf.Timeout, callTime),
		})
		observeCache(c.cache, r)
		c.Store, c.run = c.cache, append(c.run, c.cache.Run)
	}
	return c, nil
}

func (c *counters) useMemory(cfg *Config, r *telemetry.Registry, log *slog.Logger) {
	store := memory.New(memory.Config{MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory)})
	observeMemory(store, r)
	c.Store, c.run = store, append(c.run, store.Run)
	c.replicas = func() int { return cfg.Replicas }
	if path := cfg.StateFile(os.Getenv); path != "" {
		c.keeper = newKeeper(path, cfg.StateInterval, store, r, log)
	}
	if c.keeper != nil {
		c.holders, c.run = c.keeper.formerHolders, append(c.run, c.keeper.Run)
	}
}

func (c *counters) useRedis(cfg *Config, r *telemetry.Registry, ready *admin.Readiness, log *slog.Logger) error {
	store, err := newRedis(cfg, log)
	if err != nil {
		return err
	}
	store.Observe(r)
	c.Store, c.holders, c.count = store, store.Holders, store.CountHolders
	c.replicas = func() int {
		if n := store.Replicas(); n > 0 {
			return n
		}
		return cfg.Replicas
	}
	ready.Refuse(redisSilent) // before anything is served
	c.run = append(c.run, store.Run, func(ctx context.Context) error { return awaitRedis(ctx, store, ready, log) })
	return nil
}

// fallback is what remembers denials of a failing store; nil without a lease cache.
func (c *counters) fallback() limiter.Fallback {
	if c.cache == nil {
		return nil
	}
	return c.cache
}

// former are the epochs that the store had in lives before this one.
func (c *counters) former() []uint64 {
	if c.keeper == nil {
		return nil
	}
	return c.keeper.former
}

// begin prepares for the first grant of the service.
func (c *counters) begin(s *limiter.Service) {
	if c.keeper != nil {
		c.keeper.holders = s.Holders
		c.keeper.begin()
	}
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

// drain returns the unspent leases of the cache while the store still runs, so that the
// other replicas need not wait until these leases end.
func (c *counters) drain(log *slog.Logger) {
	if c.cache == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	d := c.cache.Drain(ctx)
	if d.Lost > 0 || d.Owed > 0 {
		log.Warn("could not return all unspent leases: lost units are free again when their leases end", "units", d.Units, "lost", d.Lost, "owed", d.Owed)
		return
	}
	log.Info("gave back what was on lease", "units", d.Units)
}

// end saves the counters when nothing is granted or returned any more.
func (c *counters) end() {
	if c.keeper != nil {
		c.keeper.end()
	}
}

// observeMemory declares the metrics of the memory store.
func observeMemory(s *memory.Store, r *telemetry.Registry) {
	r.GaugeFunc("weir_store_keys", "Counters in memory.", func() float64 { return float64(s.Stats().Keys) })
	r.GaugeFunc("weir_store_bytes", "Memory that they take.", func() float64 { return float64(s.Stats().Bytes) })
	r.CounterFunc("weir_store_evictions_total", "Counters forgotten, all of them as good as new.", func() float64 { return float64(s.Stats().Evicted) })
	r.CounterFunc("weir_store_full_total", "Wants answered unavailable because there was no room for their key.", func() float64 { return float64(s.Stats().Refused) })
}

// observeCache declares the metrics of the lease cache.
func observeCache(s *front.Store, r *telemetry.Registry) {
	r.GaugeFunc("weir_front_keys", "Keys in the lease cache.", func() float64 { return float64(s.Stats().Keys) })
	r.CounterFunc("weir_front_leased_total", "Wants answered from a lease in the cache.", func() float64 { return float64(s.Stats().Leased) })
	r.CounterFunc("weir_front_denied_total", "Wants answered from a denial in the cache.", func() float64 { return float64(s.Stats().Denied) })
	r.CounterFunc("weir_front_failed_total", "Wants answered unavailable by the cache, because the store did not answer just before.", func() float64 { return float64(s.Stats().Failed) })
	r.CounterFunc("weir_front_asked_total", "Asks that the cache sent to the store.", func() float64 { return float64(s.Stats().Asked) })
	r.CounterFunc("weir_front_evicted_total", "Keys that gave up their place in the cache to others, with leases given back or a denial to remember.", func() float64 { return float64(s.Stats().Evicted) })
	r.CounterFunc("weir_front_full_total", "Times that no key in the cache could give up its place, so that an ask went to the store as it was.", func() float64 { return float64(s.Stats().Full) })
}
