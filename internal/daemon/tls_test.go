package daemon

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
)

// A port with TLS that asks for no certificate is logged: its owner may believe that it does.
func TestAnybody(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, pki.NewAuthority().Write(dir, "x", "weir-regional"))
	cert := filepath.Join(dir, "x.pem")
	for clientCA, warns := range map[string]bool{"": true, cert: false} {
		var log strings.Builder
		c := TLS{Port: certs.Port{Cert: cert, Key: filepath.Join(dir, "x.key"), ClientCA: clientCA}}
		fatal.Get(c.config(telemetry.NewRegistry("test"), slog.New(slog.NewTextHandler(&log, nil))))(t)
		if strings.Contains(log.String(), "callers need no certificate") != warns {
			t.Errorf("client CA %q: %s", clientCA, &log)
		}
	}
}
