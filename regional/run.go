package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/internal/rulewatch"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
	"github.com/weirlimit/weir/regional/config"
)

// run serves until ctx ends, then drains. It returns when everything that it
// started has ended. Nothing is served before all of it is ready.
//
// The order of the end: not ready, wait until others have noticed, let calls in
// flight end, give back what is on lease, stop what runs behind the service, save the
// counters, close the admin port.
func run(ctx context.Context, cfg *config.Config, log *slog.Logger, reload func() <-chan os.Signal) error {
	metrics := telemetry.NewRegistry("weir-regional")
	ready := newReadiness(cfg, log)

	store, err := newStore(cfg, metrics, ready, log)
	if err != nil {
		return err
	}
	service := limiter.NewService(limiter.Config{
		Store:      store,
		Metrics:    metrics,
		MaxHolders: cfg.MaxHolders,
		SlotSeed:   cfg.SlotSeed,
		Former:     store.former(),
		Census:     store.census,
		NoLearning: !cfg.Learning || len(cfg.Redis) > 0, // Redis remembers
	})
	if store.counts != nil {
		store.counts(service.Live)
	}
	var envoys *rateLimitService
	rules, err := newRules(cfg, service, func() { envoys.rulesChanged() }, log, metrics)
	if err != nil {
		return fmt.Errorf("no rules to begin with:\n%w", err)
	}
	envoys, err = newRateLimitService(ctx, cfg, service, store, metrics, log)
	if err != nil {
		return err
	}
	defer envoys.close()
	ready.Notify(envoys.setReady)

	quotaPort, err := listen(ctx, cfg.Listen, "listen")
	if err != nil {
		return err
	}
	defer quotaPort.Close()
	adminPort, err := listen(ctx, cfg.AdminListen, "admin-listen")
	if err != nil {
		return err
	}
	defer adminPort.Close()
	quota, operators := &listener{Listener: quotaPort}, &listener{Listener: adminPort}
	calls := http.NewServeMux()
	calls.Handle("/", limiter.NewHandler(service, metrics))
	envoys.handle(calls)
	callers := &serving{ready: ready, next: calls}
	quotaServer := newServer(callers, cfg, log)
	adminServer := newServer(admin.Handler(admin.Config{
		Ready: ready, Metrics: metrics.Handler(), Rules: service.Rules, Pprof: cfg.Pprof,
	}), cfg, log)

	store.begin(service)
	// What runs behind the service outlives the calls that it answers.
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks, ctx := errgroup.WithContext(ctx) // the first to fail stops all
	tasks.Go(func() error { return store.Run(behind) })
	if len(cfg.Redis) == 0 {
		tasks.Go(func() error { return watchDivision(behind, service.Divided, ready, log) })
	}
	for _, w := range append(rules, envoys.watchers()...) {
		asked := reload() // now: a SIGHUP that nobody has asked for ends the process
		tasks.Go(func() error { return w.Run(behind, asked) })
	}
	tasks.Go(func() error { return serve(adminServer, operators) })
	tasks.Go(func() error { return serve(quotaServer, quota) })
	tasks.Go(envoys.serve)
	tasks.Go(func() error {
		<-ctx.Done()
		callers.drain()
		log.Info("draining", "wait", cfg.DrainWait, "timeout", cfg.DrainTimeout)
		envoys.drain()
		time.Sleep(cfg.DrainWait)
		err := errors.Join(both(
			func() error { return shut(quotaServer, quota, cfg.DrainTimeout) },
			func() error { return envoys.shut(cfg.DrainTimeout) },
		))
		store.drain(log)
		stop()
		store.end()
		return errors.Join(err, shut(adminServer, operators, time.Second))
	})
	log.Info("serving", "listen", quotaPort.Addr().String(), "admin", adminPort.Addr().String(),
		"rls", envoys.address(), "epoch", store.Epoch(), "ready", len(ready.Reasons()) == 0)
	err = tasks.Wait()
	log.Info("ended")
	return err
}

// both does two things at once.
func both(a, b func() error) (errA, errB error) {
	var first sync.WaitGroup
	first.Go(func() { errA = a() })
	errB = b()
	first.Wait()
	return errA, errB
}

// newRules puts the rules file in force, and returns what watches it; no rules where
// there is none. changed is called after each change of them.
func newRules(cfg *config.Config, service *limiter.Service, changed func(), log *slog.Logger, metrics *telemetry.Registry) ([]*watch.Watcher, error) {
	if cfg.Rules == "" {
		none, err := rulefile.Parse("no rules", []byte("rules: []\n"))
		if err != nil {
			return nil, err
		}
		return nil, service.SetRules(none)
	}
	w := rulewatch.New(cfg.Rules, func(set *rule.Set) error {
		if err := service.SetRules(set); err != nil {
			return err
		}
		changed()
		return nil
	}, log, metrics)
	return []*watch.Watcher{w}, w.Load()
}

// newReadiness refuses readiness for what the configuration says that cannot work.
func newReadiness(cfg *config.Config, log *slog.Logger) *admin.Readiness {
	ready := new(admin.Readiness)
	if cfg.Replicas > 1 && len(cfg.Redis) == 0 {
		reason := fmt.Sprintf("replicas: %d, but counters are in this process's memory, which replicas do not share: each would grant the whole limit; run one replica, or give them a store that they share with --redis", cfg.Replicas)
		ready.Refuse(reason)
		log.Error("not ready", "reason", reason)
	}
	return ready
}
