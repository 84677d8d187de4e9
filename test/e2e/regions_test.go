package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

const regionsRules = `
rules:
  - name: shared
    match: { path: { prefix: /shared/ } }
    key: [path]
    limit: 100/1d
    algorithm: fixed_window
    scope: global
    timeout: 1s
    on_failure: deny
  - name: open
    match: { path: { prefix: /open/ } }
    key: [path]
    limit: 100/1d
    scope: global
  - name: exact
    match: { path: { prefix: /exact/ } }
    key: [path]
    limit: 20/1d
    algorithm: fixed_window
    scope: global
    consistency: exact
    timeout: 1s
    on_failure: deny
  - name: equal
    match: { path: { prefix: /equal/ } }
    key: [path]
    limit: 200/1d # a window that ends soon is for whoever asks
    algorithm: fixed_window
    scope: global
    fair: equal
    timeout: 1s
    on_failure: deny
  - name: both-global
    match: { path: { prefix: /both/ } }
    key: [path]
    limit: 30/1d
    algorithm: fixed_window
    scope: global
    consistency: exact
    timeout: 1s
    on_failure: deny
  - name: both-region
    match: { path: { prefix: /both/ } }
    key: [path]
    limit: 10/1d
    algorithm: fixed_window
    consistency: exact
    timeout: 1s
    on_failure: deny
  - name: strict
    match: { path: { prefix: /strict/ } }
    key: [path]
    limit: 10/1d
    algorithm: fixed_window
    scope: global
    on_failure: deny
`

// regions are regions with one PoP each, and the aggregator that all ask.
type regions struct {
	t          *testing.T
	aggregator *region.Region
	links      []*stack.Link // from each region to the aggregator
	pops       []*stack.PoP
}

// startRegions starts regions of these names, with answers of the aggregator this late.
func startRegions(t *testing.T, rules string, delay time.Duration, names ...string) *regions {
	t.Helper()
	dir := proc.LogDir(t)
	r := &regions{t: t}
	r.aggregator = region.New(t, region.Config{
		Dir: dir, Name: "global", Rules: rules, Program: "weir-global",
		Flags: []string{"--state", filepath.Join(dir, "global.state")},
	})
	r.aggregator.Start()
	var addrs []string
	for _, name := range names {
		link := stack.NewLink(t, r.aggregator.Addr)
		link.Delay(delay)
		one := region.New(t, region.Config{
			Dir: dir, Name: name, Rules: rules, Flags: []string{"--region", name, "--global", link.Addr, "--state", "off"},
		})
		one.Start()
		r.links, addrs = append(r.links, link), append(addrs, one.Addr)
	}
	r.pops = startPoPs(t, addrs, func(*envoy.Bootstrap, int) {})
	return r
}

// startPoPs starts a PoP for each of these regions, all at once. edit changes the bootstrap
// of the i-th.
func startPoPs(t *testing.T, regions []string, edit func(b *envoy.Bootstrap, i int)) []*stack.PoP {
	t.Helper()
	i := 0
	s := stack.Start(t, stack.Config{PoPs: len(regions), RegionAddr: regions[0], Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", regions[i])
		edit(b, i)
		i++
	}})
	awaitRules(t, s)
	return s.PoPs
}

// offer sends so many requests for a path to each of two regions, a few at a time. It returns how
// many each admitted, and how many there were of each status.
func (r *regions) offer(path string, each int) (admitted [2]int64, statuses map[int]int) {
	r.t.Helper()
	var counts [2]map[int]int
	var all sync.WaitGroup
	for i := range r.pops {
		all.Go(func() { counts[i] = r.send(i, path, each) })
	}
	all.Wait()
	statuses = map[int]int{}
	for i := range counts {
		admitted[i] = int64(counts[i][http.StatusOK])
		for status, n := range counts[i] {
			statuses[status] += n
		}
	}
	return admitted, statuses
}

// decided is offer for a key of which all requests are decided in time. Where a busy machine
// does not manage that, lost is called, and another key tried.
func (r *regions) decided(path string, each int, lost func()) (admitted [2]int64, statuses map[int]int) {
	r.t.Helper()
	for n := range 20 {
		if admitted, statuses = r.offer(fmt.Sprint(path, n), each); statuses[http.StatusServiceUnavailable] == 0 {
			return admitted, statuses
		}
		if lost != nil {
			lost()
		}
	}
	r.t.Fatalf("%s: not once were all requests decided in time; at last %v", path, statuses)
	return admitted, statuses
}

// to sends requests to one region, and returns how many it admitted.
func (r *regions) to(region int, path string, requests int) int {
	return r.send(region, path, requests)[http.StatusOK]
}

// send sends requests to a region, four at a time, and counts the answers by status.
func (r *regions) send(region int, path string, requests int) map[int]int {
	r.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	var next atomic.Int64
	statuses := map[int]int{}
	for range 4 {
		all.Go(func() {
			for next.Add(1) <= int64(requests) {
				resp, err := stack.Do(r.pops[region].Addr, http.MethodGet, path, "")
				if err != nil {
					r.t.Error(err)
					return
				}
				mu.Lock()
				statuses[resp.Status]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return statuses
}

// shared is what a flood in one region, and a region that wants little at first, get of a limit.
func (r *regions) shared(key string) (flood, quiet int) {
	for range 2 { // both want some
		r.offer(key, 10)
	}
	for range 4 { // what is scarce is refused until the next answer, so a flood lasts longer than that
		flood, quiet = flood+r.to(0, key, 100), quiet+r.to(1, key, 5)
		time.Sleep(200 * time.Millisecond)
	}
	for range 3 {
		quiet += r.to(1, key, 50)
		time.Sleep(200 * time.Millisecond)
	}
	return flood, quiet
}

// One limit is one limit over two regions, with 50 ms between each and the aggregator.
func TestTwoRegions(t *testing.T) {
	t.Parallel()
	r := startRegions(t, regionsRules, 50*time.Millisecond, "eu", "us")
	t.Run("a leased limit", func(t *testing.T) {
		admitted, statuses := r.decided("/shared/", 150, nil)
		if sum := admitted[0] + admitted[1]; sum > 100 || sum < 98 || statuses[http.StatusTooManyRequests] != int(300-sum) {
			t.Errorf("admitted %v of 100: %v", admitted, statuses)
		}
	})
	t.Run("an exact limit", func(t *testing.T) {
		exactly(t, "an exact limit", 20, func() map[int]int {
			_, statuses := r.offer("/exact/a", 15)
			return statuses
		})
	})
	t.Run("equal parts", func(t *testing.T) {
		for _, key := range []string{"/equal/a", "/equal/b", "/equal/c"} {
			flood, quiet := r.shared(key)
			t.Logf("%s: after 20 of each the flood got %d, the other region %d of 160", key, flood, quiet)
			if flood+quiet > 160 {
				t.Fatalf("%s: more than the limit", key)
			}
			if flood >= 60 && quiet >= 60 {
				break
			}
			if key == "/equal/c" { // a machine that is busy lets leases end between two requests, and then they are the flood's
				t.Error("one region got less than 60 of its 80 in three tries")
			}
		}
		m := r.aggregator.Metrics()
		if eu, us := m[`weir_region_units_granted_total{region="eu"}`], m[`weir_region_units_granted_total{region="us"}`]; eu < 80 || us < 80 {
			t.Errorf("by the metrics %v and %v were granted", eu, us)
		}
	})
	t.Run("rules of both scopes", func(t *testing.T) {
		out := func() float64 {
			m := r.aggregator.Metrics()
			return m[`weir_units_granted_total{rule="both-global"}`] - m[`weir_units_returned_total{rule="both-global"}`]
		}
		before := 0.0
		admitted, _ := r.decided("/both/", 20, func() { // each region's rule admits 10
			for before = -1; before != out(); time.Sleep(time.Second) {
				before = out()
			}
		})
		if admitted != [2]int64{10, 10} {
			t.Errorf("admitted %v, want 10 and 10", admitted)
		}
		// What the regions' rules denied comes back: the global rule has 10 of 30 left.
		proc.Await(t, 10*time.Second, "give-backs", func() string {
			if n := out() - before; n != 20 {
				return fmt.Sprintf("%v are out, want 20", n)
			}
			return ""
		})
	})
	t.Run("the aggregator is away", func(t *testing.T) {
		r.offer("/strict/spent", 10)
		r.aggregator.Stop()
		if admitted, statuses := r.offer("/strict/spent", 5); admitted != [2]int64{} || statuses[http.StatusTooManyRequests] == 0 {
			t.Errorf("a spent key: admitted %v: %v", admitted, statuses)
		}
		if admitted, statuses := r.offer("/strict/new", 5); admitted != [2]int64{} || statuses[http.StatusServiceUnavailable] != 10 {
			t.Errorf("on_failure deny: admitted %v: %v", admitted, statuses)
		}
		if admitted, _ := r.offer("/open/new", 5); admitted != [2]int64{5, 5} {
			t.Errorf("on_failure allow: admitted %v", admitted)
		}
		r.aggregator.Start()
		proc.Await(t, 10*time.Second, "the aggregator is asked again", func() string {
			admitted, statuses := r.offer(fmt.Sprint("/strict/", time.Now().UnixNano()), 1)
			if admitted != [2]int64{1, 1} {
				return fmt.Sprintf("after the restart: %v", statuses)
			}
			return ""
		})
		if admitted, statuses := r.offer("/strict/spent", 5); admitted != [2]int64{} {
			t.Errorf("a spent key after the restart: admitted %v: %v", admitted, statuses)
		}
	})
}

// A region without an aggregator does not count what all regions share.
func TestGlobalRuleWithoutAggregator(t *testing.T) {
	t.Parallel()
	dir := proc.LogDir(t)
	r := region.New(t, region.Config{Dir: dir, Name: "alone", Rules: "rules: [{ name: here, key: [], limit: 5/1d }]"})
	r.Start()
	r.SetRules(regionsRules)
	proc.Eventually(t, 10*time.Second, "the region refuses the rules", func() bool {
		return strings.Contains(r.Log(), "scope: global is counted by an aggregator")
	})
	if r.Metrics()["weir_rules_config_ok"] != 0 {
		t.Error("the reload counts as good")
	}
}
