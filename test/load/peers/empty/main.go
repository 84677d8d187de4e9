// Empty is a RateLimitService that answers OK to everything and looks at nothing:
// what gRPC itself costs, below which no service can get.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "empty:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: empty HOST:PORT")
	}
	ln, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(s, server{})
	return s.Serve(ln)
}

type server struct {
	rls.UnimplementedRateLimitServiceServer
}

func (server) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}, nil
}
