package envoyrls

import (
	"path/filepath"
	"strings"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
)

// TestTLS: the server shows the certificate of its files, and serves clients of its authority: with names, those that have
// an allowed one. All else about certificates is tested in internal/certs.
func TestTLS(t *testing.T) {
	dir, a := t.TempDir(), pki.NewAuthority()
	files := TLS{Port: certs.Port{Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server.key"), ClientCA: filepath.Join(dir, "ca.pem")}}
	if _, err := New(Config{Endpoint: Endpoint{TLS: files}, Metrics: telemetry.NewRegistry("test")}); err == nil || !strings.Contains(err.Error(), files.Cert) {
		t.Errorf("no files: %v", err)
	}
	fatal.If(t, a.Write(dir, "server", "127.0.0.1"))
	for name, allowed := range map[string]bool{"": true, "envoy.example": true, "spiffe://example/envoy": true, "client": false, "example": false} {
		if name != "" {
			files.ClientSANs = []string{"nobody.example", name}
		}
		addr := newBench(t, specYAML, func(c *Config) { c.TLS = files }).serve()
		files.ClientSANs = nil
		for _, shown := range [][]string{nil, {"envoy.example", "spiffe://example/envoy"}} {
			conn := dial(t, addr, grpc.WithTransportCredentials(credentials.NewTLS(a.Client(shown...))))
			_, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(patient(t), request(of("free", "x")))
			if (err == nil) != (allowed && shown != nil) {
				t.Errorf("with %q allowed, names %q are shown: %v", name, shown, err)
			}
		}
	}
}
