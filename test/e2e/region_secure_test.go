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

// The program speaks TLS to a cluster that demands a certificate and a password, by
// its flags. /readyz states what is wrong with them, and what to change; a password is
// put right by writing its file.
func TestSecureRedis(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	c := redistest.StartCluster(t, 3, 0, redistest.TLS(a), redistest.Password("right"))
	password := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := func(ca, cert, key string) []string {
		return []string{"--redis-password-file", password, "--redis-tls", "--redis-tls-ca", ca, "--redis-tls-cert", cert, "--redis-tls-key", key}
	}
	refused := func(r *replica, want ...string) {
		t.Helper()
		var text string
		for _, part := range want {
			proc.Eventually(t, 20*time.Second, r.Name+" states: "+part, func() bool {
				var status int
				status, text = r.Ready()
				return status == http.StatusServiceUnavailable && strings.Contains(text, part)
			})
		}
		t.Log(text)
	}

	write("wrong\n")
	r := newReplica(t, "replica", sharedRules, c.Addrs()[:1], flags(a.CA, a.ClientCert, a.ClientKey)...)
	r.Begin()
	refused(r, "WRONGPASS", "set a user name and password")
	write("right\n")
	r.AwaitReady()
	if units, undecided := drained(t, "exact", "k", r); units > sharedLimit || units < uint64(sharedLimit-undecided) {
		t.Errorf("granted %d of %d (%d asks were not decided)", units, sharedLimit, undecided)
	}

	other := redistest.NewAuthority(t)
	stranger := newReplica(t, "stranger", sharedRules, c.Addrs(), flags(other.CA, a.ClientCert, a.ClientKey)...)
	stranger.Begin()
	refused(stranger, "unknown authority", "trust the authority")
}

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
