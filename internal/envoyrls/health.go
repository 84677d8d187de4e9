package envoyrls

import (
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// serviceName is what envoyproxy/ratelimit calls itself in its health service; the
// empty name and the RPC service's own are answered as well.
const serviceName = "ratelimit"

var healthNames = []string{"", serviceName, rlspb.RateLimitService_ServiceDesc.ServiceName}

// publish sets what health checks of gRPC and of HTTP answer, unless the server drains. Server.mu is locked.
func (s *Server) publish() {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if s.rules.Load() != s.none && !s.rejected {
		status = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range healthNames {
		s.health.SetServingStatus(name, status)
	}
}

// SetReady sets whether what the server depends on is ready. While it is not, health
// checks of gRPC and of HTTP fail. Before the first call it counts as ready.
func (s *Server) SetReady(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = !ready
	s.publish()
}

// Drain makes health checks fail because the server is about to end, whatever is set
// later. Requests are still answered.
func (s *Server) Drain() { s.health.Shutdown() }

var errEnding = status.Error(codes.Unavailable, "the server is about to end; ask another one")

// stream is the interceptor of streams, which ends them with the server: otherwise clients that watch its health or use
// reflection would delay its end. The handler's goroutine ends with the stream.
func (s *Server) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ended := make(chan error, 1)
	go func() {
		var err error
		defer func() { ended <- err }()
		defer s.recoverPanic(info.FullMethod, &err)
		err = handle(service, stream)
	}()
	select {
	case err := <-ended:
		return err
	case <-s.ending.Done():
		return errEnding
	}
}
