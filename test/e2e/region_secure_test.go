package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// Redis' authorities are read again: a region trusts a server once the file has its authority, and
// a server that comes back with a certificate of another one no more.
func TestRedisAuthoritiesAreReadAgain(t *testing.T) {
	t.Parallel()
	right, other := redistest.NewAuthority(t), redistest.NewAuthority(t)
	c := redistest.StartWith(t, redistest.TLS(right))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	trust := func(a *redistest.Authority) {
		t.Helper()
		text, err := os.ReadFile(a.CA)
		if err == nil {
			err = os.WriteFile(ca, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	trust(other)
	r := newReplica(t, "replica", sharedRules, []string{c.Addr}, "--redis-tls", "--redis-tls-ca", ca, "--redis-tls-cert", right.ClientCert, "--redis-tls-key", right.ClientKey)
	r.Begin()
	proc.Eventually(t, 20*time.Second, "the server is not trusted", func() bool {
		status, text := r.Ready()
		return status == http.StatusServiceUnavailable && strings.Contains(text, "unknown authority")
	})
	trust(right)
	r.AwaitReady()
	trust(other)
	proc.Eventually(t, 20*time.Second, "the files are read again", func() bool {
		r.Metrics() // which states whether they are good
		return strings.Count(r.Log(), "redis: new certificates") == 2
	})
	c.Kill()
	c.Restart()
	proc.Eventually(t, 20*time.Second, "the server is not trusted any more", func() bool {
		_, after, _ := strings.Cut(r.Log(), "redis: new certificates")
		return strings.Contains(after, "unknown authority")
	})
}
