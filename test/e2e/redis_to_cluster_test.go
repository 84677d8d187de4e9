package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
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
	aggregator := region.New(t, region.Config{Dir: proc.LogDir(t), Rules: movedRules, Program: "weir-global",
		Flags: []string{"--state", "off"}})
	aggregator.Start()
	s, replicas := startReplicas(t, 3, region.Config{Rules: movedRules, Flags: []string{"--redis", old.Addr,
		"--redis-timeout", "1s", "--region", "eu", "--aggregator", aggregator.Addr, "--drain-wait", "4s"}},
		1, func(*envoy.Bootstrap) {})

	var loads []func() *drive.Result
	for _, path := range []string{"/exact", "/leased", "/shared"} {
		loads = append(loads, background(t, s, path, 30))
	}
	time.Sleep(5 * time.Second) // the limits are used up
	runPage(t, old, next)
	for _, r := range replicas {
		r.Stop()
		r.Argv[slices.Index(r.Argv, "--redis")+1] = strings.Join(next.Addrs(), ",")
		r.Start()
		awaitStat(t, s.PoPs[0], calledReplicas, 3)
		if withheld := aggregator.Metrics()[`weir_region_withheld{region="eu"}`]; withheld != 0 || r.Metrics()["weir_reserve_in_use"] != 0 {
			t.Errorf("the aggregator withholds %v of the region's share", withheld)
		}
	}
	old.Kill()
	time.Sleep(5 * time.Second)
	for i, most := range []int64{200, 200, 100} {
		r := loads[i]()
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
