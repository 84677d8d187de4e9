package certs

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/pki"
)

// The metrics have when the certificate in force ends, and when the last of the authorities does: with a
// new authority beside one that ends soon nothing has to be done.
func TestExpiry(t *testing.T) {
	a := pki.NewAuthority()
	later := pki.NewLastingAuthority(48 * time.Hour)
	files := side(t, a, a, "x", "weir.example")
	fatal.If(t, os.WriteFile(files.CA, append(later.PEM, a.PEM...), 0o600))
	metrics := telemetry.NewRegistry("test")
	s := fatal.Get(Load("callers", files, metrics, slog.New(slog.DiscardHandler)))(t)
	wants := func(file string, end time.Time) {
		t.Helper()
		measure.Has(t, metrics.Handler(), fmt.Sprintf("weir_certificate_expiry_seconds{file=%q,of=\"callers\"} %v", file, float64(end.Unix())))
	}
	wants(files.Cert, parse(t, []byte(s.content[0])).NotAfter)
	wants(files.CA, later.Certificate.NotAfter)

	end := time.Now().Add(time.Hour)
	cert, key := a.IssueUntil(end, "x", "weir.example")
	for path, text := range map[string][]byte{files.Cert: cert, files.Key: key} {
		fatal.If(t, os.WriteFile(path, text, 0o600))
	}
	s.reload()
	wants(files.Cert, end)
}
