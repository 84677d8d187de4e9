package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Each request asks the region: a request that no replica answers is refused with 503.
const comeAndGoRules = `
rules:
  - { name: each, match: { path: /each }, key: [path], limit: 1000000/1h, algorithm: fixed_window, consistency: exact,
      timeout: 1s, on_failure: deny }
`

// A PoP finds the replicas of its region through Consul's DNS. Replicas come, more than the
// three that Consul gives to clients without EDNS, and go, and requests do not notice. While
// Consul is away the PoP keeps those that it has.
func TestConsulReplicasComeAndGo(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	c, redis, port := consultest.Start(t, proc.LogDir(t)), redistest.Start(t), strconv.Itoa(proc.FreePort(t))
	passing := map[string]string{}
	var replicas []*region.Region
	for i := range 5 {
		addr := net.JoinHostPort(fmt.Sprintf("127.0.0.%d", i+2), port)
		replicas = append(replicas, region.New(t, region.Config{
			Dir: proc.LogDir(t), Name: "eu-" + strconv.Itoa(i+1), Addr: addr, Rules: comeAndGoRules,
			Flags: []string{"--redis", redis.Addr, "--region", "eu", "--consul", c.Addr, "--drain-wait", "6s", "--redis-timeout", "1s"},
		}))
	}
	start := func(some []*region.Region) {
		for _, r := range some {
			r.Start()
			passing["weir-regional-eu-"+r.Addr] = "passing"
		}
		c.AwaitStatus("weir-regional-eu", passing)
	}
	start(replicas[:2])
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, RegionAddr: replicas[0].Addr, Bootstrap: func(b *envoy.Bootstrap) { b.FindRegion("eu", port, c.DNS) }})
	stat := func(name string) int64 {
		return s.PoPs[0].Stats("cluster.weir_region." + name)["cluster.weir_region."+name]
	}
	await := func(members int64) {
		t.Helper()
		proc.Await(t, time.Minute, fmt.Sprint(members, " replicas"), func() string {
			if all, healthy := stat("membership_total"), stat("membership_healthy"); all != members || healthy != members {
				return fmt.Sprint(all, " replicas, healthy: ", healthy)
			}
			return ""
		})
	}
	more := func(name string) {
		t.Helper()
		before := stat(name)
		proc.Eventually(t, time.Minute, "three more of "+name, func() bool { return stat(name) >= before+3 })
	}
	await(2)
	awaitRules(t, s)

	ctx, end := context.WithCancel(t.Context())
	defer end()
	offered := make(chan *drive.Result, 1)
	go func() {
		result, err := drive.Run(ctx, drive.Load{Addrs: s.Addrs(), Conns: 4, Request: drive.Get("/each"), PerSecond: 50, Until: time.Now().Add(2 * time.Minute)})
		if err != nil {
			t.Error(err)
		}
		offered <- result
	}()
	start(replicas[2:])
	await(5)
	more("update_success")
	await(5)
	proc.Together(2, func(i int) { replicas[i].Stop() })
	await(3)
	c.Kill()
	more("update_failure")
	await(3)
	end()
	r := <-offered
	t.Logf("%v, slowest %v", r.Status, r.Slowest)
	// On a busy machine an answer may be late.
	if late := r.Status[http.StatusServiceUnavailable]; late > r.OK()/100 || r.Other(http.StatusOK, http.StatusServiceUnavailable) > 0 || r.Failed > 0 {
		t.Errorf("%v, %d failed: %v", r.Status, r.Failed, r.FirstError)
	}
}

// A PoP starts while DNS does not answer.
func TestStartWithoutDNS(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0") // nobody reads the questions
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	e := envoy.New(t, envoy.Config{Dir: proc.LogDir(t), Name: "pop", Listener: "pop", Workers: 1})
	e.Bootstrap.FindRegion("eu", "8080", silent.LocalAddr().String())
	e.Start()
}
