package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/descriptor"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
	"github.com/weirlimit/weir/regional/config"
	"github.com/weirlimit/weir/regional/rls"
)

// rateLimitService is Envoy's rate limit service as it runs; nil where none is
// configured: then its methods do nothing.
type rateLimitService struct {
	server  *rls.Server
	port    net.Listener
	watched []*watch.Watcher
}

// newRateLimitService makes the service with its configuration and opens its port.
func newRateLimitService(ctx context.Context, cfg *config.Config, rules *limiter.Service, store *counting, metrics *telemetry.Registry, log *slog.Logger) (*rateLimitService, error) {
	if cfg.RatelimitConfig == "" && cfg.Descriptors == "" {
		return nil, nil
	}
	server, err := rls.New(rlsConfig(cfg, rules, store, metrics, log))
	if err != nil {
		return nil, err
	}
	var watchers []*watch.Watcher
	if cfg.RatelimitConfig != "" {
		o := descriptor.Options{MergeDomains: cfg.Ratelimit.MergeDomains}
		watchers = append(watchers, rls.WatchConfig(cfg.RatelimitConfig, o, server, log, metrics))
	}
	if cfg.Descriptors != "" {
		watchers = append(watchers, rls.WatchBindings(cfg.Descriptors, server, log, metrics))
	}
	for _, w := range watchers {
		if err := w.Load(); err != nil {
			return nil, fmt.Errorf("no rate limits to begin with:\n%w", err)
		}
	}
	port, err := listen(ctx, cfg.RLS.Listen, "rls-listen")
	if err != nil {
		return nil, err
	}
	return &rateLimitService{server: server, port: port, watched: watchers}, nil
}

func rlsConfig(cfg *config.Config, rules *limiter.Service, store *counting, metrics *telemetry.Registry, log *slog.Logger) rls.Config {
	c := rls.Config{
		Judge:            limiter.NewJudge(store, store.fall, store.replicas, metrics, log),
		Rules:            func(name string) *limiter.Policy { return rules.Policy(name, 0) },
		Consistency:      map[string]lease.Consistency{"leased": lease.Leased, "exact": lease.Exact}[cfg.Ratelimit.Consistency],
		OnFailure:        map[string]lease.OnFailure{"allow": lease.FailureAllow, "deny": lease.FailureDeny, "local": lease.FailureLocal}[cfg.Ratelimit.OnFailure],
		Replicas:         int64(cfg.Replicas),
		ChargeDenied:     cfg.Ratelimit.ChargeDenied,
		Shadow:           cfg.Ratelimit.Shadow,
		Quota:            cfg.Ratelimit.Quota,
		Metadata:         cfg.RLS.Metadata,
		HitMetrics:       cfg.Ratelimit.Metrics,
		Budget:           cfg.RLS.Budget,
		MaxConnectionAge: cfg.RLS.MaxConnectionAge,
		TLS:              rls.TLS{Cert: cfg.RLS.TLSCert, Key: cfg.RLS.TLSKey, ClientCA: cfg.RLS.TLSClientCA, ClientSANs: cfg.RLS.ClientSAN},
		Metrics:          metrics,
		Log:              log,
	}
	if cfg.RLS.Headers {
		c.Headers = rls.DefaultHeaders()
	}
	return c
}

func (s *rateLimitService) close() {
	if s != nil {
		_ = s.port.Close() // gRPC has closed it before
	}
}

// handle adds what is served over HTTP.
func (s *rateLimitService) handle(mux *http.ServeMux) {
	if s == nil {
		return
	}
	h := s.server.HTTP()
	for _, path := range []string{"/json", "/healthcheck", "/rlconfig"} {
		mux.Handle(path, h)
	}
}

// rulesChanged looks at the bindings to rules of the rules file.
func (s *rateLimitService) rulesChanged() {
	if s != nil {
		s.server.CheckBindings()
	}
}

// watchers follow the configuration.
func (s *rateLimitService) watchers() []*watch.Watcher {
	if s == nil {
		return nil
	}
	return s.watched
}

// serve answers until shut.
func (s *rateLimitService) serve() error {
	if s == nil {
		return nil
	}
	return s.server.Serve(s.port)
}

// setReady makes its health checks say what readiness says.
func (s *rateLimitService) setReady(ready bool) {
	if s != nil {
		s.server.SetReady(ready)
	}
}

func (s *rateLimitService) drain() {
	if s != nil {
		s.server.Drain()
	}
}

func (s *rateLimitService) shut(timeout time.Duration) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("rate limit requests were still in flight after %v, cut", timeout)
	}
	return nil
}

func (s *rateLimitService) address() string {
	if s == nil {
		return ""
	}
	return s.port.Addr().String()
}
