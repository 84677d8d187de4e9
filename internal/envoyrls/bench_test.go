package envoyrls

import (
	"context"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/lease"
)

// empty answers what a decision would, without one.
type empty struct {
	rlspb.UnimplementedRateLimitServiceServer
}

func (empty) ShouldRateLimit(context.Context, *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	return &rlspb.RateLimitResponse{OverallCode: rlspb.RateLimitResponse_OK,
		Statuses: []*rlspb.RateLimitResponse_DescriptorStatus{{Code: rlspb.RateLimitResponse_OK}}}, nil
}

// BenchmarkDecision is one decision without gRPC.
func BenchmarkDecision(b *testing.B) {
	for _, descriptors := range []int{1, 3} {
		b.Run("descriptors="+strconv.Itoa(descriptors), func(b *testing.B) {
			server := newBench(b, benchYAML, func(c *Config) { c.Consistency = lease.Leased.String() })
			requests := make([]*rlspb.RateLimitRequest, 1000)
			for i := range requests {
				requests[i] = benchRequest(i, descriptors)
			}
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := server.ShouldRateLimit(ctx, requests[i%len(requests)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall is a whole call over loopback, with the client's part: the empty
// handler beside the server.
func BenchmarkCall(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		rpc := grpc.NewServer()
		rlspb.RegisterRateLimitServiceServer(rpc, empty{})
		l := listen(b)
		go func() { _ = rpc.Serve(l) }()
		defer rpc.Stop()
		benchmarkCalls(b, l.Addr().String())
	})
	b.Run("weir", func(b *testing.B) {
		server := newBench(b, benchYAML, func(c *Config) { c.Consistency = lease.Leased.String() })
		l := listen(b)
		go func() { _ = server.Serve(l) }()
		benchmarkCalls(b, l.Addr().String())
	})
}

const benchYAML = `
domain: d
descriptors:
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 100000000 } }
  - { key: host, descriptors: [{ key: path, rate_limit: { unit: hour, requests_per_unit: 100000000 } }] }
  - { key: plan, value: gold, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }
`

func benchRequest(i, descriptors int) *rlspb.RateLimitRequest {
	n := strconv.Itoa(i)
	all := request(of("user", "user-"+n), of("host", "h", "path", "/p/"+n), of("plan", "gold"))
	all.Descriptors = all.Descriptors[:descriptors]
	return all
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// benchmarkCalls keeps 64 calls in flight on 8 connections, and reports the
// processor time of both sides.
func benchmarkCalls(b *testing.B, addr string) {
	const connections, callers = 8, 64
	var clients []rlspb.RateLimitServiceClient
	for range connections {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		clients = append(clients, rlspb.NewRateLimitServiceClient(conn))
	}
	begin := processorTime()
	b.ResetTimer()
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			for n := i; n < b.N; n += callers {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 10*time.Second)
				_, err := clients[i%connections].ShouldRateLimit(ctx, benchRequest(n%10_000, 1))
				cancel()
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64((processorTime()-begin).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
