package main

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// TestHealthIsReadiness: while the process is not ready all health checks fail.
func TestHealthIsReadiness(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proc.WriteFile(t, filepath.Join(dir, "d.yaml"), "domain: d\n")
	for name, args := range map[string][]string{
		"ready":         nil,
		"two replicas":  {"--replicas", "2"}, // they cannot share memory
		"without Redis": {"--redis", proc.FreeAddr(t)},
	} {
		rls, ready, serving := proc.FreeAddr(t), args == nil, healthpb.HealthCheckResponse_NOT_SERVING
		if ready {
			serving = healthpb.HealthCheckResponse_SERVING
		}
		p := start(t, append([]string{"--ratelimit-config", dir, "--rls-listen", rls}, args...)...)
		if _, text := p.Probe("/readyz"); name == "two replicas" && !strings.Contains(text, "run one replica") {
			t.Errorf("%s: %s", name, text)
		}
		for url, bad := range map[string]int{"http://" + p.Admin + "/readyz": 503, "http://" + p.Addr + "/healthcheck": 500} {
			r := fatal.Get(http.Get(url))(t)
			_ = r.Body.Close()
			if want := map[bool]int{true: 200, false: bad}[ready]; r.StatusCode != want {
				t.Errorf("%s: %s: %d, want %d", name, url, r.StatusCode, want)
			}
		}
		conn := fatal.Get(grpc.NewClient(rls, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if r, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || r.Status != serving {
			t.Errorf("%s: gRPC health: %v, %v; want %v", name, r, err, serving)
		}
	}
}
