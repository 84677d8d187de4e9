package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

const secret = "s3cret"

// deployment is a Redis that runs, and how a store finds it.
type deployment struct {
	config  topology.Config
	servers []*redistest.Server // that hold counters
}

func single(s *redistest.Server) deployment {
	return deployment{topology.Config{Addrs: []string{s.Addr}}, []*redistest.Server{s}}
}

func watched(s *redistest.Sentinel) deployment {
	config := topology.Config{Addrs: s.Addrs(), Mode: topology.Sentinel, SentinelMaster: s.Name}
	return deployment{config, []*redistest.Server{s.Master()}}
}

// showing connects to servers of an authority, with a certificate of its own.
func showing(a *pki.Authority) func() *tls.Config {
	return func() *tls.Config { return a.Client("weir") }
}

func always(password string) func() (string, error) {
	return func() (string, error) { return password, nil }
}

// usersOf are the lines of the ACL file that is shipped, with a password of ours.
func usersOf(t *testing.T, password string) []string {
	t.Helper()
	b := fatal.Get(os.ReadFile("weir.acl"))(t)
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(b), "PASSWORD", password)), "\n")
	return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") })
}

// TestModes counts in every way to run Redis, beside the plain ones and a cluster with a restricted user, which
// TestLeastRights has: to the unit, and without a command that is rejected. A restricted user of a single server needs
// fewer rights, as docs/redis.md states. How a store counts is in TestConformanceSingle and TestConformanceCluster.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		name  string
		start func(*testing.T) deployment
	}{
		{"single, TLS on both sides", func(t *testing.T) deployment {
			a := pki.NewAuthority()
			d := single(redistest.Start(t, redistest.TLS(a)))
			d.config.TLS = showing(a)
			return d
		}},
		{"single, restricted user", func(t *testing.T) deployment {
			user := regexp.MustCompile(` \+(cluster\S+|asking)`).ReplaceAllString(usersOf(t, secret)[0], "")
			d := single(redistest.Start(t, redistest.Users(user)))
			d.config.Username, d.config.Password, d.config.Mode = "weir", always(secret), topology.Single
			return d
		}},
		{"cluster, TLS, password", func(t *testing.T) deployment {
			a := pki.NewAuthority()
			c := redistest.StartCluster(t, 3, 0, redistest.TLS(a), redistest.Password(secret))
			return deployment{topology.Config{Addrs: c.Addrs(), TLS: showing(a), Password: always(secret)}, c.Nodes}
		}},
		{"sentinel, password", func(t *testing.T) deployment {
			s := redistest.StartSentinel(t, 1, redistest.Password(secret))
			for _, n := range s.Sentinels {
				n.Do("ACL", "SETUSER", "weir", "on", ">word", "+sentinel|get-master-addr-by-name")
			}
			d := watched(s)
			d.config.Password = always(secret)
			d.config.SentinelUsername, d.config.SentinelPassword = "weir", always("word")
			return d
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			d := m.start(t)
			d.config.Timeout = 10 * time.Second // the machine may be crowded, and nothing fails here
			s := start(t, Config{Redis: d.config})
			keys := spread(t, m.name, 3)
			take(t, s, keys, 40, lease.OK)
			take(t, s, keys, 10, lease.Denied)
			for _, s := range d.servers {
				if rejected := s.Rejections(); len(rejected) > 0 {
					t.Errorf("%s rejected %q", s.Addr, rejected)
				}
			}
		})
	}
}

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
			p := fixedPolicy(t, "r", 40)
			proc.Await(t, 30*time.Second, "Ready", func() string {
				if g := acquire(t, s, 100*time.Millisecond, one(p, "k"))[0]; g.Status != lease.Unavailable {
					t.Fatalf("decided: %+v", g)
				}
				err := notReady(t, s)
				for _, text := range append(c.want, config.Addrs[0]) {
					if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(text)) {
						return fmt.Sprintf("%v; want %q in it", err, text)
					}
				}
				return ""
			})
		})
	}
}
