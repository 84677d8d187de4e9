package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// movedRules deny with 503 what is not decided, so that nothing can hide.
const movedRules = `
regions: { eu: 1 }
rules:
  - { name: exact, match: { path: /exact }, key: [], limit: 100/1d, algorithm: fixed_window, consistency: exact, timeout: 1s, on_failure: deny }
  - { name: leased, match: { path: /leased }, key: [], limit: 100/1d, algorithm: fixed_window, timeout: 1s, on_failure: deny }
  - { name: shared, match: { path: /shared }, key: [], limit: 100/1d, algorithm: fixed_window, scope: global, timeout: 1s, on_failure: deny }
`

// A region goes from one Redis to a cluster as docs/redis-cluster.md has it, one replica after the other under load.
// Each key is admitted at most one more limit in its window. No request fails. What the aggregator counts stays within
// its limit.
func TestRedisToCluster(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	proc.AwaitDay()
	old, next := redistest.Start(t), redistest.StartCluster(t, 3, 0)
	dir := proc.LogDir(t)
	aggregator := region.New(t, region.Config{Dir: dir, Name: "global", Rules: movedRules, Program: "weir-global", Flags: []string{"--state", "off"}})
	aggregator.Start()
	var replicas []*region.Region
	var addrs []string
	for i := range 3 {
		r := region.New(t, region.Config{Dir: dir, Name: fmt.Sprint("replica-", i+1), Rules: movedRules, Flags: []string{
			"--redis", old.Addr, "--redis-timeout", "1s", "--region", "eu", "--aggregator", aggregator.Addr, "--drain-wait", "4s"}})
		r.Start()
		replicas, addrs = append(replicas, r), append(addrs, r.Addr)
	}
	s := start(t, stack.Config{PoPs: 1, RegionAddr: addrs[0], Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", addrs...)
	}})

	ctx, stop := context.WithCancel(t.Context())
	results := make([]*drive.Result, 3)
	var loads sync.WaitGroup
	for i, path := range []string{"/exact", "/leased", "/shared"} {
		loads.Go(func() {
			results[i], _ = drive.Run(ctx, drive.Load{Addrs: s.Addrs(), Conns: 2, PerSecond: 30, Until: time.Now().Add(time.Hour), Request: drive.Get(path)})
		})
	}
	defer stop()
	time.Sleep(5 * time.Second) // the limits are used up
	runPage(t, old, next)
	for _, r := range replicas {
		r.Stop()
		r.Argv[slices.Index(r.Argv, "--redis")+1] = strings.Join(next.Addrs(), ",")
		r.Start()
		proc.Eventually(t, 15*time.Second, r.Name+" is called again", func() bool { return called(s) == 3 })
		if withheld := aggregator.Metrics()[`weir_region_withheld{region="eu"}`]; withheld != 0 || r.Metrics()["weir_reserve_in_use"] != 0 {
			t.Errorf("the aggregator withholds %v of the region's share", withheld)
		}
	}
	old.Kill()
	time.Sleep(5 * time.Second)
	stop()
	loads.Wait()
	for i, most := range []int64{200, 200, 100} {
		r := results[i]
		if t.Logf("%v, slowest %v", r.Status, r.Slowest); r.OK() > most || r.OK() < 90 || r.Other(200, 429) > r.Sent()/100 {
			t.Errorf("%v, at most %d of 200 and none beside 429; %d failed: %v", r.Status, most, r.Failed, r.FirstError)
		}
	}
	for _, r := range replicas {
		m := r.Metrics()
		if m["weir_redis_masters"] != 3 || m["weir_redis_replicas"] != 3 {
			t.Errorf("%s sees %v masters and %v replicas", r.Name, m["weir_redis_masters"], m["weir_redis_replicas"])
		}
	}
}

// runPage runs what docs/redis-cluster.md asks to do at Redis, in order.
func runPage(t *testing.T, old *redistest.Server, next *redistest.Cluster) {
	t.Helper()
	here := strings.NewReplacer("-h 10.0.0.5", fmt.Sprint("-p ", old.Port), "-h 10.0.0.11", fmt.Sprint("-p ", next.Nodes[0].Port))
	commands := regexp.MustCompile(`(?m)^    (redis-cli .*)$`).FindAllStringSubmatch(shipped(t, "docs/redis-cluster.md"), -1)
	want := []string{"cluster_state:ok", "OK"}
	if len(commands) != len(want) {
		t.Fatalf("the page has the commands %q; write what each has to print", commands)
	}
	for i, command := range commands {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", here.Replace(command[1])).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want[i]) {
			t.Fatalf("%s: %v: %s", command[1], err, out)
		}
	}
}
