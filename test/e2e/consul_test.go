package e2e

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// consulRegions are two regions that find the aggregator through Consul, each with a PoP
// that finds its region through Consul's DNS.
type consulRegions struct {
	regions
	consul *consultest.Agent
	dir    string
	own    [2]*region.Region
}

func startConsulRegions(t *testing.T) *consulRegions {
	t.Helper()
	r := &consulRegions{regions: regions{t: t}, dir: proc.LogDir(t)}
	r.consul = consultest.Start(t, r.dir)
	found := map[string]string{}
	names, addrs := []string{"eu", "us"}, []string{}
	for i, name := range names {
		r.own[i] = region.New(t, region.Config{
			Dir: r.dir, Name: name, Rules: regionsRules, Flags: []string{"--region", name, "--consul", r.consul.Addr, "--state", "off"},
		})
		r.own[i].Start()
		found["weir-regional-"+r.own[i].Addr] = "passing"
		addrs = append(addrs, r.own[i].Addr)
	}
	r.consul.AwaitStatus("weir-regional", found) // so that a PoP's first question has an answer
	r.pops = startPoPs(t, addrs, func(b *envoy.Bootstrap, i int) {
		_, port, err := net.SplitHostPort(addrs[i])
		if err != nil {
			t.Fatal(err)
		}
		b.FindRegion(names[i], port, r.consul.DNS)
	})
	return r
}

// newAggregator prepares an aggregator on a free port. All of them have one state file.
func (r *consulRegions) newAggregator(name string) *region.Region {
	r.t.Helper()
	return region.New(r.t, region.Config{
		Dir: r.dir, Name: name, Rules: regionsRules, Program: "weir-global",
		Flags: []string{"--consul", r.consul.Addr, "--state", filepath.Join(r.dir, "global.state")},
	})
}

// awaitMetric waits until a metric of both regions has this value.
func (r *consulRegions) awaitMetric(name string, want float64) {
	r.t.Helper()
	proc.Await(r.t, time.Minute, name, func() string {
		for _, one := range r.own {
			if got := one.Metrics()[name]; got != want {
				return fmt.Sprintf("%s: %v, want %v", one.Name, got, want)
			}
		}
		return ""
	})
}

// awaitFound waits until both regions have found an aggregator, and it answers them.
func (r *consulRegions) awaitFound(a *region.Region) {
	r.t.Helper()
	for _, one := range r.own {
		proc.Eventually(r.t, time.Minute, one.Name+" finds "+a.Name, func() bool {
			return strings.Contains(one.Log(), "addresses=["+a.Addr+"]")
		})
	}
	r.awaitMetric("weir_remote_up", 1)
}

// exact offers more than an exact global limit of 20 admits, and checks what it admits.
func (r *consulRegions) exact(key string, want int) {
	r.t.Helper()
	exactly(r.t, "key "+key, want, func() map[int]int {
		_, statuses := r.offer("/exact/"+key, 15)
		return statuses
	})
}

// Regions find the aggregator in Consul whenever it comes, follow it to another port, and do
// not need Consul for what they have found.
func TestRegionsFindTheAggregator(t *testing.T) {
	t.Parallel()
	r := startConsulRegions(t)
	r.awaitMetric("weir_region_replicas", 1)
	r.awaitMetric("weir_remote_up", 0)
	if admitted, statuses := r.offer("/strict/early", 5); admitted != [2]int64{} || statuses[http.StatusServiceUnavailable] != 10 {
		t.Errorf("without an aggregator: admitted %v: %v", admitted, statuses)
	}

	first := r.newAggregator("global-1")
	first.Start()
	r.awaitFound(first)
	r.exact("a", 20)

	first.Stop() // saves its counters
	r.consul.AwaitStatus("weir-global", nil)
	second := r.newAggregator("global-2")
	second.Start()
	r.awaitFound(second)
	r.exact("a", 0)
	r.exact("b", 20)

	r.consul.Kill()
	r.awaitMetric(`weir_consul_ok{task="aggregators"}`, 0)
	r.exact("c", 20)
	r.consul.Start() // it has forgotten everybody
	r.awaitMetric(`weir_consul_ok{task="aggregators"}`, 1)
	r.consul.AwaitStatus("weir-global", map[string]string{"weir-global-" + second.Addr: "passing"})
	r.awaitMetric("weir_region_replicas", 1)
	r.exact("d", 20)

	r.own[0].Stop()
	r.consul.AwaitStatus("weir-regional", map[string]string{"weir-regional-" + r.own[1].Addr: "passing"})
}
