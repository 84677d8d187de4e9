package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// startRateLimit starts a region that serves Envoy's rate limit service too, and
// returns where.
func startRateLimit(t *testing.T, args ...string) (p *process, rls string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "d.yaml"), []byte("domain: d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = startRegion(t, append([]string{"--ratelimit-config", dir, "--rls-listen", "127.0.0.1:0"}, args...)...)
	for _, field := range strings.Fields(p.waitFor("msg=serving")) {
		if at, ok := strings.CutPrefix(field, "rls="); ok {
			rls = at
		}
	}
	return p, rls
}

// TestHealthIsReadiness: while the process is not ready all health checks fail.
func TestHealthIsReadiness(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for name, c := range map[string]struct {
		args []string
		code int
		grpc healthpb.HealthCheckResponse_ServingStatus
	}{
		"ready":         {nil, 200, healthpb.HealthCheckResponse_SERVING},
		"two replicas":  {[]string{"--replicas", "2"}, 0, healthpb.HealthCheckResponse_NOT_SERVING},
		"without Redis": {[]string{"--redis", closed.Addr().String()}, 0, healthpb.HealthCheckResponse_NOT_SERVING},
	} {
		p, rls := startRateLimit(t, c.args...)
		for url, bad := range map[string]int{p.admin + "/readyz": 503, p.quota + "/healthcheck": 500} {
			want := c.code
			if want == 0 {
				want = bad
			}
			r, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("%s: %s: %d, want %d", name, url, r.StatusCode, want)
			}
		}
		conn, err := grpc.NewClient(rls, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if r, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || r.Status != c.grpc {
			t.Errorf("%s: gRPC health: %v, %v; want %v", name, r, err, c.grpc)
		}
	}
}
