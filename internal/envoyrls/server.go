package envoyrls

import (
	"context"
	"net"
	"runtime"
	"strings"
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

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
)

// Server serves Envoy's rate limit service. Create it with [New]. It is safe for
// concurrent use.
type Server struct {
	rlspb.UnimplementedRateLimitServiceServer

	cfg     Config
	metrics *metrics
	rpc     *grpc.Server
	ending  context.Context // ends when streams have to
	end     context.CancelFunc

	mu     sync.Mutex // for replacing the rules and changing the condition
	health condition
	rules  atomic.Pointer[rules] // nil: there is no configuration yet
}

// New makes a server. The error is about the files of TLS. Health checks fail until it
// has a configuration.
func New(cfg Config) (*Server, error) {
	cfg.fill()
	s := &Server{cfg: cfg, metrics: newMetrics(cfg.Metrics, cfg.HitMetrics), health: condition{grpc: health.NewServer()}}
	s.ending, s.end = context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.StreamInterceptor(s.stream),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.NumStreamWorkers(uint32(streamWorkers * runtime.GOMAXPROCS(0))),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      cfg.MaxConnectionAge, // grpc-go adds ±10 %
			MaxConnectionAgeGrace: ageGrace,
			Time:                  probeAfter,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastProbe, PermitWithoutStream: true}),
	}
	if cfg.TLS.Cert != "" {
		secure, err := cfg.TLS.config(cfg.Metrics, cfg.Log)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	s.rpc = grpc.NewServer(options...)
	rlspb.RegisterRateLimitServiceServer(s.rpc, s)
	healthpb.RegisterHealthServer(s.rpc, s.health.grpc)
	reflection.Register(s.rpc)
	s.health.publish()
	return s, nil
}

const (
	// maxStreams bounds the requests in flight on one connection.
	maxStreams = 10_000
	// streamWorkers is the number of goroutines per processor that answer requests on
	// stacks that have grown already; when all are busy a request gets a goroutine of its
	// own. They live from New to Shutdown.
	streamWorkers = 2
	// handshakeTime is how long the handshake of a connection may take. Until then
	// nothing can cut it, not even the server's end.
	handshakeTime = 5 * time.Second
	// ageGrace is how long requests in flight have when a connection is too old.
	ageGrace = 10 * time.Second
	// probeAfter is how long a connection may be silent until it is probed, so that
	// connections of clients that vanished are closed; leastProbe is how often clients
	// may probe this side.
	probeAfter = time.Minute
	leastProbe = 500 * time.Millisecond
)

// SetConfig puts a configuration in force, as a whole. Metrics of rules that only the
// configuration before had are removed.
func (s *Server) SetConfig(c *descriptor.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.inForce()
	now := &rules{config: c, prepared: s.prepareAll(c), bindings: before.bindings}
	s.rules.Store(now)
	s.metrics.forget(before.prepared, now.prepared)
	s.forget(now)
	s.health.configured = true
	s.health.publish()
}

// SetBindings puts bindings in force, as a whole. The error is a [strict.Errors]: a rule
// is missing or cannot be bound.
func (s *Server) SetBindings(set *binding.Set) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := newBindings(set)
	errs, off := b.check(s.cfg.Rules)
	if len(errs) > 0 {
		return errs
	}
	s.metrics.unbound.Set(float64(off))
	before := s.inForce()
	s.rules.Store(&rules{config: before.config, prepared: before.prepared, bindings: b})
	s.health.configured = true
	s.health.publish()
	return nil
}

// RulesChanged is called after the rules of the rules file have changed. It logs and
// counts the bindings in force that limit nothing any more, because their rule is missing
// or cannot be bound. Their descriptors are allowed and not counted until the rule is back.
func (s *Server) RulesChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(s.inForce())
	errs, off := s.inForce().bindings.check(s.cfg.Rules)
	s.metrics.unbound.Set(float64(len(errs) + off))
	for _, err := range errs {
		s.cfg.Log.Error("descriptors: binding limits nothing since its rule changed", "error", err.Error())
	}
}

// forget makes the judge drop the metrics of rules that are in neither configuration.
func (s *Server) forget(r *rules) {
	paths := make(map[string]bool, len(r.prepared))
	domains := map[string]bool{} // and the names of those without a rule, see domainName
	for d := range r.prepared {
		paths[d.Path] = true
		if name, _, ok := strings.Cut(d.Path, "|"); ok {
			domains[name+"|"] = true
		}
	}
	s.cfg.Judge.Forget(func(name string) bool {
		return paths[name] || domains[name] || s.cfg.Rules != nil && s.cfg.Rules(name, nil) != nil
	})
}

// inForce returns the rules in force; an empty configuration if there are none.
func (s *Server) inForce() *rules {
	if r := s.rules.Load(); r != nil {
		return r
	}
	return &rules{config: noConfig, bindings: noBindings}
}

// Serve answers on a listener until Shutdown; then it returns nil.
func (s *Server) Serve(l net.Listener) error { return s.rpc.Serve(l) }

// Shutdown takes no new requests, ends streams and waits for requests in flight; when
// ctx ends it cuts their connections and returns ctx's error. A decision that is still
// under way then ends by the deadline of its request.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.end()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.rpc.GracefulStop()
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		s.rpc.Stop() // waits for handshakes: handshakeTime at most
		return ctx.Err()
	}
}
