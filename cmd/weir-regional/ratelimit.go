package main

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/cmd/weir-regional/config"
	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/envoyrls"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/watch"
)

// newRateLimitService makes Envoy's rate limit service on a tier's counters and rules, with its
// configuration, which the tier follows.
func newRateLimitService(cfg *config.Config, t *daemon.Tier) (*envoyrls.Server, error) {
	s, err := envoyrls.New(envoyrls.Config{
		Limits:   cfg.Ratelimit,
		Endpoint: cfg.RLS,
		Judge:    t.NewJudge(),
		Rules:    t.Service,
		Replicas: int64(cfg.Replicas),
		Metrics:  t.Metrics,
		Tracer:   t.Tracer,
		Log:      t.Log,
		Now:      time.Now,
	})
	if err != nil {
		return nil, err
	}
	var watchers []*watch.Watcher
	if cfg.RatelimitConfig != "" {
		o := descriptor.Options{MergeDomains: cfg.Ratelimit.MergeDomains}
		watchers = append(watchers, envoyrls.WatchConfig(cfg.RatelimitConfig, o, s, t.Log, t.Metrics))
	}
	if cfg.RatelimitBindings != "" {
		watchers = append(watchers, envoyrls.WatchBindings(cfg.RatelimitBindings, s, t.Log, t.Metrics))
	}
	for _, w := range watchers {
		if err := w.Load(); err != nil {
			return nil, fmt.Errorf("no rate limits to begin with:\n%w", err)
		}
		t.Watch(w)
	}
	return s, nil
}
