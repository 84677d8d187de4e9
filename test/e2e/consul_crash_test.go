package e2e

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consul"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// inDNS are the addresses that Consul's DNS has for a name; none: it answers that there are none.
func inDNS(t *testing.T, c *consul.Agent, name string) (hosts []string) {
	t.Helper()
	dns := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.DNS)
	}}
	hosts, err := dns.LookupHost(t.Context(), name+".service.consul.")
	if none := new(net.DNSError); err != nil && (!errors.As(err, &none) || !none.IsNotFound) {
		return []string{err.Error()}
	}
	return hosts
}

// finds waits until callers find just these replicas of a service: by the catalog, and by DNS.
func finds(t *testing.T, c *consul.Agent, service string, replicas ...*region.Region) {
	t.Helper()
	var ids, hosts []string
	for _, r := range replicas {
		host, _, err := net.SplitHostPort(r.Addr)
		if err != nil {
			t.Fatal(err)
		}
		ids, hosts = append(ids, service+"-"+r.Addr), append(hosts, host)
	}
	proc.Await(t, time.Minute, "replicas of "+service+" that are found", func() string {
		passing, err := c.Passing(service)
		slices.Sort(passing)
		if err != nil || !slices.Equal(passing, ids) {
			return strings.Join(passing, " ")
		}
		listed := inDNS(t, c, service)
		slices.Sort(listed)
		if !slices.Equal(listed, hosts) {
			return strings.Join(listed, " ")
		}
		return ""
	})
}

// awaitCritical waits until the checks of instances are critical, and fails the test if that is
// not so after a time by Consul's clock.
func awaitCritical(t *testing.T, c *consul.Agent, within time.Duration, ids ...string) {
	t.Helper()
	const timer = "timer"
	c.StartTimer(timer, within)
	var left []string
	look := func() (over bool) {
		critical, err := c.Critical()
		if err != nil {
			t.Fatal(err)
		}
		left = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(critical, id) })
		return slices.Contains(critical, timer)
	}
	proc.Await(t, time.Minute, "critical checks", func() string {
		if over := look(); over {
			return ""
		}
		return strings.Join(left, " ")
	})
	if len(left) > 0 { // on a machine that stood still all checks end at once, in any order
		time.Sleep(time.Second)
		look()
	}
	if len(left) > 0 {
		t.Fatalf("not critical after %v: %q", within, left)
	}
}

// Programs that are killed are found no longer by their check, and again when they have started
// again. What others do is as before.
func TestKilledInConsul(t *testing.T) {
	t.Parallel()
	dir := proc.LogDir(t)
	c := consul.Start(t, dir)
	program := func(name, program, host string, flags ...string) *region.Region {
		r := region.New(t, region.Config{
			Dir: dir, Name: name, Program: program, Rules: regionsRules, Addr: net.JoinHostPort(host, strconv.Itoa(proc.FreePort(t))),
			Flags: append(flags, "--consul", c.Addr, "--state", "off"),
		})
		r.Start()
		return r
	}
	aggregator := program("global", "weir-global", "127.0.0.1")
	stays := program("eu-1", "weir-regional", "127.0.0.2", "--region", "eu")
	killed := program("eu-2", "weir-regional", "127.0.0.3", "--region", "eu")
	finds(t, c, "weir-global", aggregator)
	finds(t, c, "weir-regional", stays, killed)

	aggregator.Kill()
	killed.Kill()
	ids := []string{"weir-global-" + aggregator.Addr, "weir-regional-" + killed.Addr}
	awaitCritical(t, c, 15*time.Second, ids...)
	finds(t, c, "weir-global")
	finds(t, c, "weir-regional", stays)
	c.AwaitStatus("weir-global", map[string]string{ids[0]: "critical"})
	c.AwaitStatus("weir-regional", map[string]string{ids[1]: "critical", "weir-regional-" + stays.Addr: "passing"})

	aggregator.Start()
	killed.Start()
	finds(t, c, "weir-global", aggregator)
	finds(t, c, "weir-regional", stays, killed)
}
