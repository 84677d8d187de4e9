package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// MARKER stands for what changes while the test runs.
const operatedRules = `
rules:
  - { name: orders, match: { path: /orders }, key: [{ header: x-user }], limit: 1000000/1h, scope: global }
  - { name: closed, match: { path: /closed }, key: [{ header: x-user }], limit: 0/1d, algorithm: fixed_window }
  - { name: few, match: { path: /few }, key: [{ header: x-user }], limit: 5/1d, algorithm: fixed_window, consistency: exact, timeout: 1s, on_failure: deny }
  - { name: MARKER, match: { path: /MARKER }, key: [], limit: 0/1d, scope: pop }
`

// operated is an installation that the test operates: Consul, an aggregator, and three regions with a Redis and a PoP
// each. The first region has two replicas.
type operated struct {
	*testing.T
	*stack.Stack
	dir        string
	consul     *consultest.Agent
	redis      []*redistest.Server // of each region
	aggregator *region.Region
	replicas   []*region.Region // one of each region, and another one of the first
	links      []*stack.Link    // between each PoP and its region
}

// operatedRegions are their names.
var operatedRegions = []string{"eu", "us", "ap"}

func startOperated(t *testing.T) *operated {
	t.Helper()
	w := &operated{T: t, dir: proc.LogDir(t)}
	w.consul = consultest.Start(t, w.dir)
	start := func(name, program string, flags ...string) *region.Region {
		r := region.New(t, region.Config{Dir: w.dir, Name: name, Program: program, Flags: append(flags,
			"--rules", "consul:", "--consul", w.consul.Addr, "--rules-copy", filepath.Join(w.dir, name+".copy"))})
		r.Begin()
		return r
	}
	w.weir(0, "apply", w.rules("first"), "--consul", w.consul.Addr, "--reason", "begin")
	w.aggregator = start("global", "weir-global", "--state", filepath.Join(w.dir, "state"))
	for i, name := range append(operatedRegions, operatedRegions[0]) {
		if i < len(operatedRegions) {
			w.redis = append(w.redis, redistest.Start(t))
		}
		w.replicas = append(w.replicas, start(fmt.Sprint(name, i), "weir-regional", "--region", name,
			"--aggregator", w.aggregator.Addr, "--redis", w.redis[i%len(operatedRegions)].Addr, "--redis-timeout", "1s"))
	}
	for _, r := range append(w.replicas, w.aggregator) {
		r.AwaitReady()
	}
	w.Stack = stack.Start(t, stack.Config{PoPs: len(operatedRegions), RegionAddr: w.replicas[0].Addr, Bootstrap: func(b *envoy.Bootstrap) {
		i := len(w.links)
		w.links = append(w.links, stack.NewLink(t, w.replicas[i].Addr))
		addrs := []string{w.links[i].Addr}
		if i == 0 {
			addrs = append(addrs, w.replicas[len(w.replicas)-1].Addr)
		}
		b.SetCluster("weir_region", addrs...)
		b.SetPlugin(map[string]any{"region": operatedRegions[i]})
	}})
	everywhere(w.T, "the rules", w.PoPs, func(p *stack.PoP) bool { return p.Get("/first").Status == http.StatusTooManyRequests })
	return w
}

// rules writes the rules with a marker, and returns the path of the file.
func (w *operated) rules(marker string) string {
	return proc.WriteFile(w, filepath.Join(w.dir, "rules.yaml"), strings.ReplaceAll(operatedRules, "MARKER", marker))
}

// weir runs the tool, which has to end with a status, and returns what it prints to both outputs.
func (w *operated) weir(status int, args ...string) (stdout, stderr string) {
	w.Helper()
	stdout, stderr, got := weir(w.T, "", args...)
	if got != status {
		w.Fatalf("weir %v: status %d, want %d\n%s%s", args, got, status, stdout, stderr)
	}
	return stdout, stderr
}

// asks runs a command at an admin port, which has to end with a status, and decodes what it prints for programs.
func asks[T any](w *operated, at *region.Region, status int, args ...string) (answer T) {
	w.Helper()
	out, _ := w.weir(status, append(args, "--admin", at.Admin, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		w.Fatalf("weir %v: %v\n%s", args, err, out)
	}
	return answer
}

// TestOperateThreeRegions: with the API of an aggregator, or of a region, a person changes rules and limits of single keys
// for three regions with PoPs under load. A PoP that does not answer is named, and goes on deciding.
func TestOperateThreeRegions(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	proc.AwaitDay()
	w := startOperated(t)
	end := background(t, w.Stack, "/orders", 120)
	w.overrideEverywhere()
	w.applied()
	w.keys()
	if r := end(); r.Other(http.StatusOK) > 0 {
		t.Errorf("%v, %d failed: %v", r.Status, r.Failed, r.FirstError)
	}
	w.popAway()
}

// overrideEverywhere sets overrides at the aggregator, and measures when all workers of all PoPs decide by each of them. A PoP
// remembers for up to 0.8 s that a key is refused.
func (w *operated) overrideEverywhere() {
	w.Helper()
	answers := func(user string, want int) func(*stack.PoP) bool {
		return func(p *stack.PoP) bool { return p.Get("/closed", "x-user", user).Status == want }
	}
	for _, user := range []string{"ann", "bob", "cid"} {
		everywhere(w.T, "refused", w.PoPs, answers(user, http.StatusTooManyRequests))
		began := time.Now()
		w.weir(0, "override", "set", "closed", user, "--limit", "1000/1d", "--until", "1h", "--reason", "a test", "--admin", w.aggregator.Admin)
		everywhere(w.T, "the override", w.PoPs, answers(user, http.StatusOK))
		w.Logf("an override decided at all PoPs of three regions after %v", time.Since(began))
	}
	if all := asks[v1.Amendments](w, w.replicas[1], 0, "override", "list"); len(all.Items) != 3 {
		w.Errorf("another region has %+v", all.Items)
	}
	w.weir(0, "override", "rm", "closed", "ann", "--reason", "it is over", "--admin", w.replicas[2].Admin)
	everywhere(w.T, "refused", w.PoPs, answers("ann", http.StatusTooManyRequests))
	if all := asks[v1.Audit](w, w.aggregator, 0, "audit"); len(all.Items) != 4 || all.Items[0].What != "override.remove" || all.Items[0].Why != "it is over" {
		w.Errorf("audit: %+v", all.Items)
	}
}

// applied applies rules and waits until all members have them. Then each worker decides by them.
func (w *operated) applied() {
	w.Helper()
	began := time.Now()
	out, _ := w.weir(0, "apply", w.rules("second"), "--admin", w.aggregator.Admin, "--reason", "a test", "--wait")
	w.Logf("weir apply --wait took %v: %s", time.Since(began), out)
	if want := fmt.Sprint("in force at all members of all regions: ", 1+len(w.replicas)+len(w.PoPs)); !strings.Contains(out, want) {
		w.Errorf("%q is not in %s", want, out)
	}
}

// keys: the counter of a key is looked at and reset, where it is.
func (w *operated) keys() {
	w.Helper()
	spend := func() (admitted int) {
		for range 8 {
			if w.PoPs[0].Get("/few", "x-user", "bob").Status == http.StatusOK {
				admitted++
			}
		}
		return admitted
	}
	if n := spend(); n != 5 {
		w.Errorf("admitted %d, want 5", n)
	}
	other := w.replicas[len(w.replicas)-1] // counters are in Redis
	if found := asks[v1.Counters](w, other, 0, "peek", "few", "bob"); len(found.Items) != 1 || found.Items[0].Limit != 5 || found.Items[0].Remaining != 0 {
		w.Errorf("%+v", found.Items)
	}
	if found := asks[v1.Counters](w, w.replicas[0], 0, "reset", "few", "bob", "--reason", "a test"); len(found.Items) != 1 || found.Items[0].Remaining != 5 {
		w.Errorf("%+v", found.Items)
	}
	spends(w.T, 5, func() int64 { return int64(spend()) })
	if _, problem := w.weir(1, "peek", "few", "bob", "--admin", w.aggregator.Admin); !strings.Contains(problem, "region") {
		w.Errorf("a counter of a region, at the aggregator: %s", problem)
	}
}

// popAway: who does not get new rules is named, by the command that applies them, and by the status.
func (w *operated) popAway() {
	w.Helper()
	w.well(w.aggregator)
	w.links[2].Cut()
	out, _ := w.weir(3, "apply", w.rules("third"), "--admin", w.aggregator.Admin, "--reason", "a test", "--wait")
	if got := strings.Count(out, "not in force: "); got != 1 || !strings.Contains(out, "not in force: pop ap pop-3, ") {
		w.Errorf("weir apply --wait names %d: %s", got, out)
	}
	everywhere(w.T, "the new rules", w.PoPs[:2], func(p *stack.PoP) bool { return p.Get("/third").Status == http.StatusTooManyRequests })
	w.decides("pop away", "/second", w.PoPs[2])
	w.links[2].Heal()
	everywhere(w.T, "the new rules", w.PoPs[2:], func(p *stack.PoP) bool { return p.Get("/third").Status == http.StatusTooManyRequests })
	w.well(w.aggregator)
}

// well waits until the status of a tier is that all is well.
func (w *operated) well(at *region.Region) {
	w.Helper()
	proc.Await(w, time.Minute, "all is well", func() string {
		if out, problems, status := weir(w.T, "", "status", "--admin", at.Admin); status != 0 {
			return fmt.Sprint(status, "\n", out, problems)
		}
		return ""
	})
}

// decides expects that PoPs decide: a key that was never seen, and requests that are always refused.
func (w *operated) decides(when, refused string, pops ...*stack.PoP) {
	w.Helper()
	for _, p := range pops {
		for path, want := range map[string]int{"/orders": http.StatusOK, refused: http.StatusTooManyRequests} {
			if r := p.Get(path, "x-user", when+" "+p.Name); r.Status != want {
				w.Errorf("%s, %s: %s: %d, want %d", when, p.Name, path, r.Status, want)
			}
		}
	}
}
