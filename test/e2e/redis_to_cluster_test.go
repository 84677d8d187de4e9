package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
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

const (
	movedLimit  = 100
	movedWindow = 10 // seconds
	// movedRules deny with 503 what is not decided, so that nothing can hide.
	movedRules = `
regions: { eu: 1 }
rules:
  - { name: exact, match: { path: /exact }, key: [ { header: x-user } ], limit: 100/10s, algorithm: fixed_window,
      consistency: exact, timeout: 1s, on_failure: deny }
  - { name: leased, match: { path: /leased }, key: [ { header: x-user } ], limit: 100/10s, algorithm: fixed_window,
      timeout: 1s, on_failure: deny }
  - { name: shared, match: { path: /shared }, key: [ { header: x-user } ], limit: 100/10s, algorithm: fixed_window,
      scope: global, timeout: 1s, on_failure: deny }
`
)

// A region goes from one Redis to a cluster as docs/redis-cluster.md has it, one replica after the other under load.
// Each key is admitted at most one more limit in windows in which both count, and within its limit in all
// others. No request fails. What the aggregator counts stays within its limit all the time.
func TestRedisToCluster(t *testing.T) {
	t.Parallel()
	old, next := redistest.Start(t), redistest.StartCluster(t, 3, 0)
	dir := proc.LogDir(t)
	aggregator := region.New(t, region.Config{Dir: dir, Name: "global", Rules: movedRules, Program: "weir-global", Flags: []string{"--state", "off"}})
	aggregator.Start()
	var replicas []*region.Region
	var addrs []string
	for i := range 3 {
		r := region.New(t, region.Config{Dir: dir, Name: fmt.Sprint("replica-", i+1), Rules: movedRules, Flags: []string{
			"--redis", old.Addr, "--redis-timeout", "1s", "--region", "eu", "--global", aggregator.Addr, "--drain-wait", "4s"}})
		r.Start()
		replicas, addrs = append(replicas, r), append(addrs, r.Addr)
	}
	s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: addrs[0], Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", addrs...)
	}})
	awaitRules(t, s)

	loads := startMoved(t, s.Addrs())
	time.Sleep(2 * movedWindow * time.Second)
	runPage(t, old, next)
	began := time.Now()
	for _, r := range replicas {
		r.Stop()
		r.Argv[slices.Index(r.Argv, "--redis")+1] = strings.Join(next.Addrs(), ",")
		r.Start()
		proc.Eventually(t, 15*time.Second, r.Name+" is called again", func() bool { return called(s) == 3 })
		if withheld := aggregator.Metrics()[`weir_region_withheld{region="eu"}`]; withheld != 0 || r.Metrics()["weir_reserve_in_use"] != 0 {
			t.Errorf("the aggregator withholds %v of the region's share", withheld)
		}
	}
	ended := time.Now()
	old.Kill()
	time.Sleep(3 * movedWindow * time.Second)
	for _, l := range loads() {
		l.judge(t, began.Unix(), ended.Unix())
	}
	for _, r := range replicas {
		m := r.Metrics()
		if m["weir_redis_masters"] != 3 || m["weir_redis_replicas"] != 3 || m["weir_foreign_epochs_total"] != 0 {
			t.Errorf("%s sees %v masters and %v replicas, %v foreign epochs", r.Name, m["weir_redis_masters"], m["weir_redis_replicas"], m["weir_foreign_epochs_total"])
		}
	}
}

// runPage runs what docs/redis-cluster.md asks to do at Redis, in order.
func runPage(t *testing.T, old *redistest.Server, next *redistest.Cluster) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(proc.Root(t), "docs", "redis-cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("-h 10.0.0.5", fmt.Sprint("-p ", old.Port), "-h 10.0.0.11", fmt.Sprint("-p ", next.Nodes[0].Port))
	commands := regexp.MustCompile(`(?m)^    (redis-cli .*)$`).FindAllStringSubmatch(string(page), -1)
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

// moved is what one key got.
type moved struct {
	rule, user string
	*drive.Result
}

// startMoved offers three times the limit to some keys of each rule, until the results are asked for.
func startMoved(t *testing.T, addrs []string) (results func() []moved) {
	t.Helper()
	ctx, stop := t.Context(), make(chan struct{})
	var mu sync.Mutex
	var all sync.WaitGroup
	var done []moved
	for _, rule := range []string{"exact", "leased", "shared"} {
		for i := range 3 {
			user := fmt.Sprint("user-", i)
			all.Go(func() {
				sum := moved{rule, user, &drive.Result{Seconds: map[int64]drive.Second{}}}
				request := drive.Get("/"+rule, "x-user", user)
				for running := true; running; {
					select {
					case <-stop:
						running = false
					default:
					}
					r, err := drive.Run(ctx, drive.Load{Addrs: addrs, Conns: 2, PerSecond: 3 * movedLimit / movedWindow, Until: time.Now().Add(time.Second), Request: request})
					if err != nil {
						t.Error(err)
						return
					}
					sum.add(r)
				}
				mu.Lock()
				done = append(done, sum)
				mu.Unlock()
			})
		}
	}
	return func() []moved {
		close(stop)
		all.Wait()
		slices.SortFunc(done, func(a, b moved) int { return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.user, b.user)) })
		return done
	}
}

// add joins another run of the same key.
func (m *moved) add(r *drive.Result) {
	m.Done, m.Failed, m.Slowest = m.Done+r.Done, m.Failed+r.Failed, max(m.Slowest, r.Slowest)
	m.Stalled += r.Stalled
	m.FirstError = cmp.Or(m.FirstError, r.FirstError)
	for status, n := range r.Status {
		m.Status[status] += n
	}
	for at, second := range r.Seconds {
		for later, n := range m.Seconds[at].Later {
			if second.Later == nil {
				second.Later = map[int64]int64{}
			}
			second.Later[later] += n
		}
		second.OK += m.Seconds[at].OK
		m.Seconds[at] = second
	}
}

// judge holds what was admitted in each window against what it may be: twice the limit if replicas changed their
// Redis in it.
func (m *moved) judge(t *testing.T, began, ended int64) {
	t.Helper()
	admitted := map[int64]int64{} // by window
	for at, second := range m.Seconds {
		window := at - at%movedWindow
		admitted[window] += second.OK
		for later, n := range second.Later {
			if later >= window+movedWindow {
				admitted[window] -= n // it may count in the next one
			}
		}
	}
	var seen []string
	for _, window := range slices.Sorted(maps.Keys(admitted)) {
		n, most, mark := admitted[window], int64(movedLimit), ""
		if m.rule != "shared" && window+movedWindow > began && window <= ended {
			most, mark = 2*movedLimit, "*"
		}
		seen = append(seen, fmt.Sprint(n, mark))
		if n > most {
			t.Errorf("%s of %s: %d admitted in a window, at most %d", m.rule, m.user, n, most)
		}
		if last := window == slices.Max(slices.Collect(maps.Keys(admitted))); window > ended && !last && n < movedLimit/2 {
			t.Errorf("%s of %s: %d admitted in a window of the cluster", m.rule, m.user, n)
		}
	}
	t.Logf("%s of %s: %s; slowest %v, stalled %v, %v", m.rule, m.user, strings.Join(seen, " "), m.Slowest, m.Stalled, m.Status)
	excused := int64(0) // where this machine stood still, answers were late for all
	if m.Stalled > 0 {
		excused = m.Sent() / 100
	}
	if m.Other(200, 429) > excused {
		t.Errorf("%s of %s: %v, failed %d: %v", m.rule, m.user, m.Status, m.Failed, m.FirstError)
	}
	if m.Slowest > 2*time.Second+m.Stalled {
		t.Errorf("%s of %s: a request took %v", m.rule, m.user, m.Slowest)
	}
}
