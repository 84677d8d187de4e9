package rls

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/weirlimit/weir/regional/rls/descriptor"
)

// Server serves Envoy's rate limit service. Create it with [New]. It is safe for
// concurrent use.
type Server struct {
	rlspb.UnimplementedRateLimitServiceServer

	cfg     Config
	metrics *metrics
	rpc     *grpc.Server
	health  *health.Server
	serving atomic.Bool

	mu    sync.Mutex            // of who replaces the rules
	rules atomic.Pointer[rules] // nil: there is no configuration yet
}

// serviceName is what envoyproxy/ratelimit calls itself in its health service; the
// empty name and the RPC service's own are answered as well.
const serviceName = "ratelimit"

var healthNames = []string{"", serviceName, rlspb.RateLimitService_ServiceDesc.ServiceName}

// New makes a server. The error says what is wrong with the files of TLS. It is not
// serving, as health tells it, until it has a configuration.
func New(cfg Config) (*Server, error) {
	cfg.fill()
	s := &Server{cfg: cfg, metrics: newMetrics(cfg.Metrics), health: health.NewServer()}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(cfg.MaxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      cfg.MaxConnectionAge, // grpc-go adds ±10 %
			MaxConnectionAgeGrace: ageGrace,
			Time:                  probeAfter,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastProbe, PermitWithoutStream: true}),
	}
	if cfg.TLS.Cert != "" {
		files, err := newCertificates(cfg.TLS, cfg.Log)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(files.config())))
	}
	s.rpc = grpc.NewServer(options...)
	rlspb.RegisterRateLimitServiceServer(s.rpc, s)
	healthpb.RegisterHealthServer(s.rpc, s.health)
	reflection.Register(s.rpc)
	s.setServing(false)
	return s, nil
}

const (
	// maxStreams bounds the requests in flight on one connection.
	maxStreams = 10_000
	// ageGrace is how long requests in flight have when a connection is too old.
	ageGrace = 10 * time.Second
	// probeAfter is how long a connection may be silent until it is probed, so that
	// those of clients that vanished do not stay; leastProbe is how often clients may
	// probe this side.
	probeAfter = time.Minute
	leastProbe = 500 * time.Millisecond
)

// SetConfig puts a configuration in force, as a whole.
func (s *Server) SetConfig(c *descriptor.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.present()
	s.rules.Store(&rules{config: c, prepared: s.prepareAll(c, before), bindings: before.bindings})
	s.setServing(true)
	return nil
}

// SetBindings puts bindings in force, as a whole; nil: there are none. The error is
// an [Errors]: a rule is missing, or is one that cannot be bound.
func (s *Server) SetBindings(b *Bindings) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs, off := b.check(s.cfg.Rules)
	if len(errs) > 0 {
		return errs
	}
	s.metrics.unbound.Set(float64(off))
	before := s.present()
	s.rules.Store(&rules{config: before.config, prepared: before.prepared, bindings: b})
	s.setServing(true)
	return nil
}

// CheckBindings is for when the rules file's rules were replaced: it says in the log
// and in a metric which of the bindings in force limit nothing any more, because
// their rule has gone or cannot be bound. Their descriptors are allowed and not
// counted until the rule is back.
func (s *Server) CheckBindings() {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs, off := s.present().bindings.check(s.cfg.Rules)
	s.metrics.unbound.Set(float64(len(errs) + off))
	for _, err := range errs {
		s.cfg.Log.Error("descriptors: a binding limits nothing: its rule has changed", "error", err.Error())
	}
}

// present are the rules in force; those without anything if there are none.
func (s *Server) present() *rules {
	if r := s.rules.Load(); r != nil {
		return r
	}
	return &rules{config: noConfig}
}

func (s *Server) setServing(yes bool) {
	s.serving.Store(yes)
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if yes {
		status = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range healthNames {
		s.health.SetServingStatus(name, status)
	}
}

// Serve answers on a listener until Shutdown; then it returns nil.
func (s *Server) Serve(l net.Listener) error { return s.rpc.Serve(l) }

// Drain tells health checks that the server is about to end; it goes on answering.
func (s *Server) Drain() {
	s.serving.Store(false)
	s.health.Shutdown() // whatever is set later, it stays so
}

// Shutdown takes no new requests and waits for those in flight; when ctx ends it
// cuts their connections and returns ctx's error. What then still decides on one
// ends by that request's own deadline.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.rpc.GracefulStop()
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		s.rpc.Stop()
		return ctx.Err()
	}
}
