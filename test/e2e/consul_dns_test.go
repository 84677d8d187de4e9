package e2e

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

// A PoP finds the replicas of its region through Consul's DNS, also more than the three that Consul gives to
// clients without EDNS, and those that come and go. While Consul does not answer the PoP keeps the replicas that it has.
// That decisions go on meanwhile is in script 5-consul-leader-killed of test/regions.
func TestReplicasThroughDNS(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	c, redis, port := consultest.Start(t, proc.LogDir(t)), redistest.Start(t), strconv.Itoa(proc.FreePort(t))
	passing := map[string]string{}
	var replicas []*region.Region
	for i := range 5 {
		r := region.New(t, region.Config{Dir: proc.LogDir(t), Name: "eu-" + strconv.Itoa(i+1), Rules: "rules: []\n",
			Addr:  net.JoinHostPort(fmt.Sprintf("127.0.0.%d", i+2), port),
			Flags: []string{"--redis", redis.Addr, "--region", "eu", "--consul", c.Addr}})
		r.Begin()
		replicas, passing["weir-regional-eu-"+r.Addr] = append(replicas, r), "passing"
	}
	c.AwaitStatus("weir-regional-eu", passing)
	e := envoy.New(t, envoy.Config{Dir: proc.LogDir(t), Name: "pop", Listener: "pop", Workers: 1})
	e.Bootstrap.FindRegion("eu", port, c.DNS)
	e.Start()
	stat := func(name string) int64 { return e.Stats("cluster.weir_region." + name)["cluster.weir_region."+name] }
	await := func(members int64) {
		t.Helper()
		proc.Await(t, time.Minute, fmt.Sprint(members, " replicas"), func() string {
			if all, healthy := stat("membership_total"), stat("membership_healthy"); all != members || healthy != members {
				return fmt.Sprint(all, " replicas, healthy: ", healthy)
			}
			return ""
		})
	}
	await(5)
	proc.Together(2, func(i int) { replicas[i].Stop() })
	await(3)
	c.Kill()
	before := stat("update_failure")
	proc.Eventually(t, time.Minute, "three questions without an answer", func() bool { return stat("update_failure") >= before+3 })
	await(3)
}

// A PoP starts while DNS does not answer.
func TestStartWithoutDNS(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0") // nobody reads the questions
	fatal.If(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	e := envoy.New(t, envoy.Config{Dir: proc.LogDir(t), Name: "pop", Listener: "pop", Workers: 1})
	e.Bootstrap.FindRegion("eu", "8080", silent.LocalAddr().String())
	e.Start()
}
