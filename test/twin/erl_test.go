package twin

import (
	"context"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/ratelimit"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// peer is an envoyproxy/ratelimit with a Redis of its own.
type peer struct {
	client rlspb.RateLimitServiceClient
	redis  *redistest.Server
	tap    *tap
}

// startPeer starts envoyproxy/ratelimit with a directory of configurations.
func startPeer(t testing.TB, dir string) *peer {
	t.Helper()
	p := &peer{redis: redistest.Start(t)}
	p.tap = newTap(t, p.redis)
	addr := proc.FreeAddr(t)
	ratelimit.Start(t, proc.LogDir(t), "ratelimit", addr, dir, "REDIS_TYPE=SINGLE", "REDIS_URL="+p.redis.Addr, "REDIS_POOL_SIZE=2",
		"DISABLE_STATS=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true")
	p.client = dial(t, addr)
	return p
}

// ask asks, and returns what was charged for the answer.
func (p *peer) ask(t testing.TB, request *rlspb.RateLimitRequest) (answer, []charge) {
	a := ask(t, p.client, request)
	return a, p.tap.taken(t, request.Domain)
}

func dial(t testing.TB, addr string) rlspb.RateLimitServiceClient {
	t.Helper()
	conn := fatal.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return rlspb.NewRateLimitServiceClient(conn)
}

type answer struct {
	response *rlspb.RateLimitResponse
	err      error
}

// ask has a deadline that no busy machine meets.
func ask(t testing.TB, client rlspb.RateLimitServiceClient, request *rlspb.RateLimitRequest) answer {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := client.ShouldRateLimit(ctx, request)
	return answer{r, err}
}
