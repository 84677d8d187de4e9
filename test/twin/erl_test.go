package twin

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// peer is an envoyproxy/ratelimit with a Redis of its own.
type peer struct {
	client rlspb.RateLimitServiceClient
	redis  *redistest.Server
	tap    *tap
}

// buildPeer builds envoyproxy/ratelimit, whose version is in test/load/peers/go.mod.
// WEIR_RATELIMIT names another one that is built already.
var buildPeer = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("WEIR_RATELIMIT"); path != "" {
		return path, nil
	}
	dir, err := filepath.Abs("../../.tools/peers")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "github.com/envoyproxy/ratelimit/src/service_cmd")
	cmd.Dir, cmd.Stderr = "../load/peers", os.Stderr
	return filepath.Join(dir, "service_cmd"), cmd.Run()
})

// startPeer starts envoyproxy/ratelimit with a directory of configurations.
func startPeer(t testing.TB, dir string) *peer {
	t.Helper()
	program, err := buildPeer()
	if err != nil {
		t.Fatalf("building envoyproxy/ratelimit: %v", err)
	}
	p := &peer{redis: redistest.Start(t)}
	p.tap = newTap(t, p.redis)
	argv := []string{"env", "REDIS_TYPE=SINGLE", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + p.redis.Addr, "REDIS_POOL_SIZE=2",
		"RUNTIME_ROOT=" + filepath.Dir(dir), "RUNTIME_SUBDIRECTORY=", "RUNTIME_APPDIRECTORY=" + filepath.Base(dir),
		"RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=warn",
		"LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true"}
	grpcAddr, http := proc.FreeAddr(t), proc.FreeAddr(t)
	for _, listen := range []struct{ name, addr string }{{"GRPC_", grpcAddr}, {"", http}, {"DEBUG_", proc.FreeAddr(t)}} {
		host, port, _ := net.SplitHostPort(listen.addr)
		argv = append(argv, listen.name+"HOST="+host, listen.name+"PORT="+port)
	}
	process := proc.Start(t, proc.LogDir(t), "ratelimit", append(argv, program)...)
	process.AwaitReady("http://" + http + "/healthcheck")
	p.client = dial(t, grpcAddr)
	return p
}

// ask asks, and returns what was charged for the answer.
func (p *peer) ask(t testing.TB, request *rlspb.RateLimitRequest) (answer, []charge) {
	a := ask(t, p.client, request)
	return a, p.tap.taken(t, request.Domain)
}

func (p *peer) giveBack(t testing.TB, c charge) {
	if _, err := p.redis.Try("DECRBY", c.key, strconv.FormatUint(c.hits, 10)); err != nil {
		t.Errorf("giving back %v: %v", c, err)
	}
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
