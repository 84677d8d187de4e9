package redisstore

import (
	"crypto/tls"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/redistest"
)

const secret = "s3cret"

// deployment is a Redis that runs, and how a store finds it.
type deployment struct {
	config topology.Config
	// servers are all that may hold counters.
	servers func() []*redistest.Server
}

// deployments are the ways in which Redis is run, beside the plain ones and a cluster with a restricted user, which
// TestLeastRights has. Of that user a single server needs fewer rights, as docs/redis.md states.
var deployments = []struct {
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
		d := clustered(redistest.StartCluster(t, 3, 0, redistest.TLS(a), redistest.Password(secret)))
		d.config.TLS, d.config.Password = showing(a), always(secret)
		return d
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
}

func single(s *redistest.Server) deployment {
	return deployment{topology.Config{Addrs: []string{s.Addr}}, func() []*redistest.Server { return []*redistest.Server{s} }}
}

func clustered(c *redistest.Cluster) deployment {
	return deployment{topology.Config{Addrs: c.Addrs()}, func() []*redistest.Server { return c.Nodes }}
}

func watched(s *redistest.Sentinel) deployment {
	return deployment{
		topology.Config{Addrs: s.Addrs(), Mode: topology.Sentinel, SentinelMaster: s.Name},
		func() []*redistest.Server { return []*redistest.Server{s.Master()} },
	}
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

// TestModes counts in every way to run Redis: to the unit, and without a command that is rejected. How a
// store counts is in TestConformanceSingle and TestConformanceCluster.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, m := range deployments {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			d := m.start(t)
			d.config.Timeout = 10 * time.Second // the machine may be crowded, and nothing fails here
			s := start(t, Config{Redis: d.config})
			keys := spread(t, m.name, 3)
			take(t, s, keys, 40, lease.OK)
			take(t, s, keys, 10, lease.Denied)
			for _, s := range d.servers() {
				if rejected := s.Rejections(); len(rejected) > 0 {
					t.Errorf("%s rejected %q", s.Addr, rejected)
				}
			}
		})
	}
}
