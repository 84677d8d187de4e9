package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/weirlimit/weir/cmd/weir-regional/config"
	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/envoyrls"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/internal/watch"
)

// rateLimitService is Envoy's rate limit service on a port of its own.
type rateLimitService struct {
	*envoyrls.Server
	port net.Listener
}

// newRateLimitService makes the service on a tier's counters and rules, with its configuration,
// which the tier follows, and opens its port.
func newRateLimitService(ctx context.Context, cfg *config.Config, t *daemon.Tier) (*rateLimitService, error) {
	s, err := envoyrls.New(envoyrls.Config{
		Limits:   cfg.Ratelimit,
		Endpoint: cfg.RLS,
		Judge:    t.NewJudge(),
		Rules:    t.Service,
		Replicas: int64(cfg.Replicas),
		Metrics:  t.Metrics,
		Tracer:   t.Tracer,
		Log:      t.Log,
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
	port, err := server.Listen(ctx, cfg.RLS.Listen, "rls-listen", 0)
	if err != nil {
		return nil, err
	}
	return &rateLimitService{s, port}, nil
}

// Address is the address of the port.
func (s *rateLimitService) Address() string { return s.port.Addr().String() }

// Serve answers until Shut.
func (s *rateLimitService) Serve() error { return s.Server.Serve(s.port) }

// Shut lets requests in flight end within the timeout, then cuts them.
func (s *rateLimitService) Shut(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		return fmt.Errorf("rate limit requests were still in flight after %v, cut", timeout)
	}
	return nil
}
