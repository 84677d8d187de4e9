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
	server := func(options ...redistest.Option) func(*testing.T) deployment {
		return func(t *testing.T) deployment { return single(redistest.Start(t, options...)) }
	}
	sentinels := func(options ...redistest.Option) func(*testing.T) deployment {
		return func(t *testing.T) deployment { return watched(redistest.StartSentinel(t, 0, options...)) }
	}
	a := pki.NewAuthority()
	for _, c := range []struct {
		name   string
		start  func(*testing.T) deployment
		change func(*topology.Config)
		want   []string // beside the address of a server
	}{
		{"wrong password", server(redistest.Users(usersOf(t, secret)...)), func(c *topology.Config) {
			c.Username, c.Password = "weir", always("wrong")
		}, []string{"WRONGPASS", "set a user name and password"}},
		{"no password", server(redistest.Password(secret)), nil, []string{"NOAUTH", "demands a password"}},
		{"password of a file that is not there", server(redistest.Password(secret)), func(c *topology.Config) {
			c.Password = func() (string, error) { return "", errors.New("open /run/secrets/redis: no such file or directory") }
		}, []string{"/run/secrets/redis", "make the password readable"}},
		{"wrong password of sentinels", sentinels(redistest.Password(secret)), func(c *topology.Config) {
			c.Password = always(secret)
		}, []string{"sentinel", "NOAUTH", "demands a password"}},
		{"unknown master", sentinels(), func(c *topology.Config) {
			c.SentinelMaster = "waterfall"
		}, []string{`no master named "waterfall"`, "SENTINEL MASTERS"}},
		{"servers of another authority", server(redistest.TLS(a)), func(c *topology.Config) {
			c.TLS = showing(pki.NewAuthority())
		}, []string{"certificate signed by unknown authority", "trust the authority"}},
		{"another name in the certificate", server(redistest.TLS(a)), func(c *topology.Config) {
			c.TLS = func() *tls.Config {
				ours := a.Client("weir")
				ours.ServerName = "redis.example"
				return ours
			}
		}, []string{"certificate is valid for localhost, not redis.example", "set the server name"}},
		{"no certificate of our own", server(redistest.TLS(a)), func(c *topology.Config) {
			c.TLS = func() *tls.Config { return a.Client() }
		}, []string{"configure a client certificate"}},
		{"no TLS", server(redistest.TLS(a)), nil, []string{"turn TLS on"}},
		{"TLS where there is none", server(), func(c *topology.Config) { c.TLS = showing(a) }, []string{"turn TLS off"}},
		{"a server in place of a cluster", server(), func(c *topology.Config) {
			c.Mode = topology.Cluster
		}, []string{"cluster support disabled", "use mode single"}},
		{"a cluster without slots", server(redistest.Args("--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(proc.FreePort(t)))), nil,
			[]string{"no slots", "create it"}},
		{"servers in place of sentinels", server(), func(c *topology.Config) {
			c.Mode, c.SentinelMaster = topology.Sentinel, "weir"
		}, []string{"sentinel", "unknown command", "choose the mode"}},
		{"sentinels in place of a server", sentinels(), func(c *topology.Config) {
			*c = topology.Config{Addrs: c.Addrs[:1]}
		}, []string{"unknown command", "choose the mode"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := c.start(t).config
			if config.Timeout = topology.DefaultTimeout; c.change != nil {
				c.change(&config)
			}
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
