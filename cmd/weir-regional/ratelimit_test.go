package main

import (
	"context"
	"fmt"
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
	for replicas, want := range map[string]string{"1": "200 200 SERVING", "2": "503 500 NOT_SERVING"} { // two cannot share memory
		rls := proc.FreeAddr(t)
		p := start(t, "--ratelimit-config", dir, "--rls-listen", rls, "--replicas", replicas)
		ready, text := p.Probe("/readyz")
		call := fatal.Get(http.Get("http://" + p.Addr + "/healthcheck"))(t)
		_ = call.Body.Close()
		conn := fatal.Get(grpc.NewClient(rls, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		health := fatal.Get(healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}))(t)
		if got := fmt.Sprint(ready, call.StatusCode, " ", health.Status); got != want || strings.Contains(text, "run one replica") != (ready == 503) {
			t.Errorf("%s replicas: %s, want %s; %s", replicas, got, want, text)
		}
	}
}
