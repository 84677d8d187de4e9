// Package envoyrls serves Envoy's rate limit service (envoy.service.ratelimit.v3), as a
// drop-in for envoyproxy/ratelimit, over a [engine.Judge].
//
//	request ─▶ check ─▶ match each descriptor to a rule ─▶ decide ─▶ reply
//
// Package rules finds the rule of a descriptor, package decision decides on a request.
// A descriptor that no rule matches is allowed and not counted, and so is one of an
// unknown domain. While the store does not answer, each rule's on_failure decides;
// the reply is not an error then.
//
// Descriptors may also be bound to rules of the rules file (package binding). Their
// algorithm, key and limit are then those of the rule, and PoPs and clients of this
// service share its counters. A descriptor with its own limit is not bound.
package envoyrls

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/envoyrls/metrics"
	"github.com/weirlimit/weir/internal/envoyrls/rules"
	"github.com/weirlimit/weir/internal/repeat"
)

// Server serves Envoy's rate limit service. Create it with [New]. It is safe for
// concurrent use.
type Server struct {
	rlspb.UnimplementedRateLimitServiceServer

	cfg     Config
	metrics *metrics.Metrics
	decider decision.Decider
	none    *rules.Set // without any rule, as long as there is no configuration
	rpc     *grpc.Server
	room    atomic.Int64         // bytes left of maxInFlight
	unread  repeat.OncePerMinute // logs requests that cannot be read
	ending  context.Context      // ends when streams have to
	end     context.CancelFunc

	health *health.Server

	mu       sync.Mutex // for replacing the rules and changing rejected
	rejected bool       // see SetReady
	rules    atomic.Pointer[rules.Set]
}

// New makes a server. The error is about the files of TLS. Health checks fail until it
// has a configuration.
func New(cfg Config) (*Server, error) {
	counts := metrics.New(cfg.Metrics, cfg.HitMetrics)
	s := &Server{
		cfg:     cfg,
		metrics: counts,
		decider: decision.Decider{Judge: cfg.Judge, ChargeRejected: cfg.ChargeRejected, Shadow: cfg.Shadow},
		none:    rules.New(cfg.rules(counts)),
		health:  health.NewServer(),
	}
	s.rules.Store(s.none)
	s.room.Store(maxInFlight)
	s.ending, s.end = context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.StreamInterceptor(s.stream),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.NumStreamWorkers(uint32(streamWorkers * runtime.GOMAXPROCS(0))),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      cfg.MaxConnectionAge, // grpc-go adds ±10 %
			MaxConnectionAgeGrace: ageGrace,
			Time:                  probeAfter,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastProbe, PermitWithoutStream: true}),
	}
	if secure, err := cfg.TLS.Load("rls", false, cfg.Metrics, cfg.Log, cfg.TLS.checkName); err != nil {
		return nil, err
	} else if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	s.rpc = grpc.NewServer(options...)
	service := rlspb.RateLimitService_ServiceDesc
	service.Methods = []grpc.MethodDesc{{MethodName: service.Methods[0].MethodName, Handler: s.call}}
	s.rpc.RegisterService(&service, s)
	healthpb.RegisterHealthServer(s.rpc, s.health)
	reflection.Register(s.rpc)
	s.publish()
	return s, nil
}

const (
	// maxStreams bounds the requests in flight on one connection.
	maxStreams = 10_000
	// streamWorkers is the number of goroutines per processor that answer requests on
	// stacks that have grown already; when all are busy a request gets a goroutine of its
	// own. They live from New to Shut, and save a tenth of the CPU at 1,500 calls per second.
	// grpc-go calls them experimental.
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
	before := s.rules.Load()
	now := before.WithConfig(c)
	s.rules.Store(now)
	s.metrics.Forget(before.Config, c)
	s.cfg.Judge.Forget(now.Live())
	s.publish()
}

// SetBindings puts bindings in force, as a whole. The error is a [strict.Errors]: a rule
// is missing or cannot be bound.
func (s *Server) SetBindings(set *binding.Set) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.rules.Load().WithBindings(set)
	errs, off := now.Check()
	if len(errs) > 0 {
		return errs
	}
	s.metrics.Unbound.Set(float64(off))
	s.rules.Store(now)
	s.publish()
	return nil
}

// RulesChanged is called after the rules of the rules file have changed. It logs and
// counts the bindings in force that limit nothing any more, because their rule is missing
// or cannot be bound. Their descriptors are allowed and not counted until the rule is back.
func (s *Server) RulesChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.rules.Load()
	if in != s.none { // which is told by its address
		in = in.WithBindings(in.Bindings)
		s.rules.Store(in)
	}
	s.cfg.Judge.Forget(in.Live())
	errs, off := in.Check()
	s.metrics.Unbound.Set(float64(len(errs) + off))
	for _, err := range errs {
		s.cfg.Log.Error("ratelimit_bindings: a binding has no effect since its rule changed", "error", err.Error())
	}
}

// Serve answers on a listener until Shut; then it returns nil.
func (s *Server) Serve(l net.Listener) error { return s.rpc.Serve(l) }

// Shut takes no new requests, ends streams and lets requests in flight end within the timeout;
// then it cuts their connections. A decision that is still under way then ends by the deadline
// of its request.
func (s *Server) Shut(timeout time.Duration) error {
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
	case <-time.After(timeout):
		s.rpc.Stop() // waits for handshakes: handshakeTime at most
		return fmt.Errorf("rate limit requests were still in flight after %v, cut", timeout)
	}
}
