package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/regional/admin"
	"github.com/weirlimit/weir/regional/config"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/front"
	"github.com/weirlimit/weir/regional/limiter/memory"
	"github.com/weirlimit/weir/regional/rulewatch"
)

// run serves until ctx ends, then drains. It returns when everything that it
// started has ended. Nothing is served before all of it is ready.
//
// The order of the end: not ready, wait until others have noticed, let calls in
// flight end, stop what runs behind the service, close the admin port.
func run(ctx context.Context, cfg *config.Config, log *slog.Logger, reload <-chan os.Signal) error {
	metrics := telemetry.NewRegistry("weir-regional")
	ready := newReadiness(cfg, log)

	store, runStore := newStore(cfg, metrics)
	service := limiter.NewService(limiter.Config{
		Store:      store,
		Metrics:    metrics,
		MaxHolders: cfg.MaxHolders,
		NoLearning: !cfg.Learning,
	})
	rules := rulewatch.New(cfg.Rules, service.SetRules, log, metrics)
	if err := rules.Load(); err != nil {
		return fmt.Errorf("no rules to begin with:\n%w", err)
	}

	quota, err := listen(ctx, cfg.Listen, "listen")
	if err != nil {
		return err
	}
	defer quota.Close()
	operators, err := listen(ctx, cfg.AdminListen, "admin-listen")
	if err != nil {
		return err
	}
	defer operators.Close()
	quotaServer := newServer(limiter.NewHandler(service, metrics), cfg, log)
	adminServer := newServer(admin.Handler(admin.Config{
		Ready: ready, Metrics: metrics.Handler(), Rules: service.Rules, Pprof: cfg.Pprof,
	}), cfg, log)

	// What runs behind the service outlives the calls that it answers.
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks, ctx := errgroup.WithContext(ctx) // the first to fail stops all
	tasks.Go(func() error { return runStore(behind) })
	tasks.Go(func() error { return rules.Run(behind, reload) })
	tasks.Go(func() error { return serve(adminServer, operators) })
	tasks.Go(func() error { return serve(quotaServer, quota) })
	tasks.Go(func() error {
		<-ctx.Done()
		ready.Refuse("draining: this process is about to end")
		log.Info("draining", "wait", cfg.DrainWait, "timeout", cfg.DrainTimeout)
		time.Sleep(cfg.DrainWait)
		err := shut(quotaServer, cfg.DrainTimeout)
		stop()
		return errors.Join(err, shut(adminServer, time.Second))
	})
	log.Info("serving", "listen", quota.Addr().String(), "admin", operators.Addr().String(),
		"epoch", store.Epoch(), "ready", len(ready.Reasons()) == 0)
	err = tasks.Wait()
	log.Info("ended")
	return err
}

// newReadiness refuses readiness for what the configuration says that cannot work.
func newReadiness(cfg *config.Config, log *slog.Logger) *admin.Readiness {
	ready := new(admin.Readiness)
	if cfg.Replicas > 1 {
		reason := fmt.Sprintf("replicas: %d, but counters are in this process's memory, which replicas do not share: each would grant the whole limit; run one replica", cfg.Replicas)
		ready.Refuse(reason)
		log.Error("not ready", "reason", reason)
	}
	return ready
}

// newStore makes the store that the configuration names, and what has to run
// behind it.
func newStore(cfg *config.Config, r *telemetry.Registry) (limiter.Store, func(context.Context) error) {
	counters := memory.New(memory.Config{MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory)})
	observe(counters, r)
	if cfg.Front != "on" { // memory is as near as the cache
		return counters, counters.Run
	}
	cache := front.New(front.Config{Store: counters, MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory)})
	observeFront(cache, r)
	return cache, func(ctx context.Context) error {
		tasks, ctx := errgroup.WithContext(ctx)
		tasks.Go(func() error { return counters.Run(ctx) })
		tasks.Go(func() error { return cache.Run(ctx) })
		return tasks.Wait()
	}
}

// observe declares the metrics of the memory store.
func observe(s *memory.Store, r *telemetry.Registry) {
	r.GaugeFunc("weir_store_keys", "Counters in memory.", func() float64 { return float64(s.Stats().Keys) })
	r.GaugeFunc("weir_store_bytes", "Memory that they take.", func() float64 { return float64(s.Stats().Bytes) })
	r.CounterFunc("weir_store_evictions_total", "Counters forgotten, all of them as good as new.", func() float64 { return float64(s.Stats().Evicted) })
	r.CounterFunc("weir_store_full_total", "Wants answered unavailable because there was no room for their key.", func() float64 { return float64(s.Stats().Refused) })
}

// observeFront declares the metrics of the lease cache.
func observeFront(s *front.Store, r *telemetry.Registry) {
	r.GaugeFunc("weir_front_keys", "Keys in the lease cache.", func() float64 { return float64(s.Stats().Keys) })
	r.CounterFunc("weir_front_leased_total", "Wants answered from a lease in the cache.", func() float64 { return float64(s.Stats().Leased) })
	r.CounterFunc("weir_front_denied_total", "Wants answered from a denial in the cache.", func() float64 { return float64(s.Stats().Denied) })
	r.CounterFunc("weir_front_asked_total", "Asks that the cache sent to the store.", func() float64 { return float64(s.Stats().Asked) })
}
