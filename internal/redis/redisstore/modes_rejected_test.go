package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// Ready reports what keeps a store from working at all, with the server and
// with what Redis or TLS has against it, and asks are Unavailable meanwhile.
func TestRejected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start func(*testing.T) topology.Config
		want  []string // beside the address of a server
	}{
		{"wrong password", func(t *testing.T) topology.Config {
			d := single(redistest.Start(t, redistest.Users(usersOf(t, secret)...)))
			d.config.Username, d.config.Password = "weir", always("wrong")
			return d.config
		}, []string{"WRONGPASS", "set a user name and password"}},
		{"no password", func(t *testing.T) topology.Config {
			return single(redistest.Start(t, redistest.Password(secret))).config
		}, []string{"NOAUTH", "demands a password"}},
		{"password of a file that is not there", func(t *testing.T) topology.Config {
			d := single(redistest.Start(t, redistest.Password(secret)))
			d.config.Password = func() (string, error) { return "", errors.New("open /run/secrets/redis: no such file or directory") }
			return d.config
		}, []string{"/run/secrets/redis", "make the password readable"}},
		{"wrong password of sentinels", func(t *testing.T) topology.Config {
			d := watched(redistest.StartSentinel(t, 0, redistest.Password(secret)))
			d.config.Password = always(secret)
			return d.config
		}, []string{"sentinel", "NOAUTH", "demands a password"}},
		{"unknown master", func(t *testing.T) topology.Config {
			d := watched(redistest.StartSentinel(t, 0))
			d.config.SentinelMaster = "waterfall"
			return d.config
		}, []string{`no master named "waterfall"`, "SENTINEL MASTERS"}},
		{"servers of another authority", func(t *testing.T) topology.Config {
			d := single(redistest.Start(t, redistest.TLS(pki.NewAuthority())))
			d.config.TLS = showing(pki.NewAuthority())
			return d.config
		}, []string{"certificate signed by unknown authority", "trust the authority"}},
		{"another name in the certificate", func(t *testing.T) topology.Config {
			a := pki.NewAuthority()
			d := single(redistest.Start(t, redistest.TLS(a)))
			d.config.TLS = func() *tls.Config {
				c := a.Client("weir")
				c.ServerName = "redis.example"
				return c
			}
			return d.config
		}, []string{"certificate is valid for localhost, not redis.example", "set the server name"}},
		{"no certificate of our own", func(t *testing.T) topology.Config {
			a := pki.NewAuthority()
			d := single(redistest.Start(t, redistest.TLS(a)))
			d.config.TLS = func() *tls.Config { return a.Client() }
			return d.config
		}, []string{"configure a client certificate"}},
		{"no TLS", func(t *testing.T) topology.Config {
			return single(redistest.Start(t, redistest.TLS(pki.NewAuthority()))).config
		}, []string{"turn TLS on"}},
		{"TLS where there is none", func(t *testing.T) topology.Config {
			d := single(redistest.Start(t))
			d.config.TLS = showing(pki.NewAuthority())
			return d.config
		}, []string{"turn TLS off"}},
		{"a server in place of a cluster", func(t *testing.T) topology.Config {
			d := single(redistest.Start(t))
			d.config.Mode = topology.Cluster
			return d.config
		}, []string{"cluster support disabled", "use mode single"}},
		{"a cluster without slots", func(t *testing.T) topology.Config {
			return single(redistest.Start(t, redistest.Args("--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(proc.FreePort(t))))).config
		}, []string{"no slots", "create it"}},
		{"servers in place of sentinels", func(t *testing.T) topology.Config {
			d := single(redistest.Start(t))
			d.config.Mode, d.config.SentinelMaster = topology.Sentinel, "weir"
			return d.config
		}, []string{"sentinel", "unknown command", "choose the mode"}},
		{"sentinels in place of a server", func(t *testing.T) topology.Config {
			return topology.Config{Addrs: redistest.StartSentinel(t, 0).Addrs()[:1]}
		}, []string{"unknown command", "choose the mode"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := c.start(t)
			config.Timeout = topology.DefaultTimeout
			s := launch(t, Config{Redis: config})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			p := fixedPolicy(t, "r", 40)
			var err error
			proc.Eventually(t, 30*time.Second, "Ready reports what is wrong", func() bool {
				attempt, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				if g := acquire(t, s, 100*time.Millisecond, one(p, "k"))[0]; g.Status != lease.Unavailable {
					t.Fatalf("decided: %+v", g)
				}
				err = s.Ready(attempt)
				missing := func(text string) bool { return !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(text)) }
				for _, text := range append(c.want, config.Addrs[0]) {
					if err == nil || missing(text) {
						if ctx.Err() != nil {
							t.Fatalf("Ready: %v; want %q in it", err, text)
						}
						return false
					}
				}
				return true
			})
			t.Log(err)
		})
	}
}
