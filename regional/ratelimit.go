package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/internal/watch"
	"github.com/weirlimit/weir/regional/config"
)

// rateLimitService is Envoy's rate limit service as it runs, an extension of the tier.
type rateLimitService struct {
	*envoyrls.Server
	port    net.Listener
	watched []*watch.Watcher
}

// newRateLimitService makes the service with its configuration and opens its port.
func newRateLimitService(ctx context.Context, cfg *config.Config, t *daemon.Tier) (*rateLimitService, error) {
	s, err := envoyrls.New(envoyrls.Config{
		Limits:   cfg.Ratelimit,
		Endpoint: cfg.RLS,
		Judge:    t.NewJudge(),
		Rules:    func(name string, key []byte) *engine.Policy { return t.Service.Policy(name, 0, key) },
		Replicas: int64(cfg.Replicas),
		Metrics:  t.Metrics,
		Tracer:   t.Tracer(),
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
	if cfg.Descriptors != "" {
		watchers = append(watchers, envoyrls.WatchBindings(cfg.Descriptors, s, t.Log, t.Metrics))
	}
	for _, w := range watchers {
		if err := w.Load(); err != nil {
			return nil, fmt.Errorf("no rate limits to begin with:\n%w", err)
		}
	}
	port, err := server.Listen(ctx, cfg.RLS.Listen, "rls-listen")
	if err != nil {
		return nil, err
	}
	return &rateLimitService{Server: s, port: port, watched: watchers}, nil
}

// Watchers follow the configuration and the bindings.
func (s *rateLimitService) Watchers() []*watch.Watcher { return s.watched }

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

// Close closes the port, also if nothing was served.
func (s *rateLimitService) Close() error { return s.port.Close() }
