package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// What a rule can be beside one limit with one counter. Capitals stand for what changes while the test runs, and for
// what all rules have.
const expandedRules = `
rules:
  - { name: phase, match: { path: /PHASE }, key: [], limit: 0/1d, scope: pop }
  - { name: login, match: { path: /login }, key: [{ header: x-user }], ALL, limits: [6/1d, WINDOW/2d] }
  - { name: part, match: { path: /part }, key: [{ header: x-user }], ALL, limit: 1/1d, hash: true, percent: PERCENT }
  - { name: ab, match: { path: /ab }, key: [{ header: x-user }], ALL, limit: 1/1d,
      variants: [{ name: a, weight: 50 }, { name: b, weight: 50, limit: 3/1d, algorithm: sliding_log }] }
  - { name: live, match: { path: /live }, key: [{ header: x-user }], ALL, limit: 3/1d }
  - { name: lift, mode: exempt, match: { path: /live, header: { x-probe: "1" } }, from: [live] }
  - { name: tiers, match: { path: /tiers }, key: [{ header: x-user }], ALL, limit: 1/1d, overrides: [
      { when: { header: { x-tier: staff } }, limit: unlimited },
      { name: gold, when: { header: { x-tier: gold } }, limit: 2/1d, until: "END" },
      { key: [free], limit: unlimited },
      { key: [granted], limit: 3/1d, until: "END" },
      { key: [later], limit: 3/1d, until: "END" } ] }
  - { name: secret, match: { path: /secret }, key: [{ header: x-api-key }], ALL, limit: 3/1d, hash: true,
      overrides: [{ key: [in-plain], limit: 1000000/1d }, { name: partner, hash: "HASH", limit: 7/1d }] }
  - { name: secret-leased, match: { path: /leased }, key: [{ header: x-api-key }], limit: 1000000/1d, hash: true }
  - { name: secret-global, match: { path: /global }, key: [{ header: x-api-key }], ALL, limit: 3/1d, hash: true, scope: global }
candidates:
  - { rule: live, limit: 1/1d, until: "END" }
`

// expanded is the world of these rules: Consul, a cluster of Redis, an aggregator, a region of two replicas, two PoPs.
type expanded struct {
	*testing.T
	*stack.Stack
	dir    string
	consul *consultest.Agent
	redis  *redistest.Cluster
	tiers  []*region.Region // the aggregator and the replicas
	log    string           // the access log of both PoPs
	hash   string           // of the partner's key, under the first secret
}

// TestExpandedRules: rules that have several counters, or none for some requests, or hashed keys, decide as docs/rules.md
// states it, at two PoPs and with counters in several shards of Redis, and when the rules have changed.
func TestExpandedRules(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	proc.AwaitDay()
	w := startExpanded(t)
	var later []func()
	for _, feature := range []func() func(){w.windows, w.percent, w.variants, w.candidate, w.overrides} {
		later = append(later, feature())
	}
	end := time.Now().Add(3 * time.Second)
	w.apply("second", "100", "60", end)
	time.Sleep(time.Until(end.Add(time.Second)))
	for _, changed := range later {
		changed()
	}
	w.hashes()
	w.search()
}

func startExpanded(t *testing.T) *expanded {
	w := &expanded{T: t, dir: proc.LogDir(t)}
	w.redis = redistest.StartCluster(t, 3, 0, redistest.NodeTimeout(time.Minute),
		redistest.Args("--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000"))
	w.consul, w.log = consultest.Start(t, w.dir), filepath.Join(w.dir, "access.log")
	w.setSecrets(0, olderSecret)
	w.hash = w.hashesOf(partner)[0]
	w.apply("first", "4", "30", time.Now().Add(time.Hour))
	start := func(name, program string, flags ...string) {
		r := region.New(t, region.Config{Dir: w.dir, Name: name, Program: program, Flags: append(flags, "--rules", "consul:", "--consul", w.consul.Addr,
			"--rules-copy", filepath.Join(w.dir, name+".copy"), "--key-secrets", filepath.Join(w.dir, name+secretsFile), "--log-level", "debug")})
		r.Start()
		w.tiers = append(w.tiers, r)
	}
	start("global", "weir-global", "--state", filepath.Join(w.dir, "state"), "--state-interval", "100ms")
	for _, name := range []string{"one", "two"} {
		start(name, "weir-regional", "--region", "eu", "--global", w.tiers[0].Addr, "--redis", strings.Join(w.redis.Addrs(), ","), "--redis-timeout", "1s")
	}
	w.Stack = stack.Start(t, stack.Config{RegionAddr: w.tiers[1].Addr, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", w.tiers[1].Addr, w.tiers[2].Addr)
		b.SetAccessLog(w.log)
	}})
	for _, p := range w.PoPs {
		do(t, p.Admin, http.MethodPost, "/logging?wasm=debug")
	}
	w.inForce("first")
	return w
}

// apply puts the rules into Consul, and waits until all workers of the PoPs have them, if there are any.
func (w *expanded) apply(phase, window, percent string, end time.Time) {
	w.Helper()
	text := strings.NewReplacer("PHASE", phase, "WINDOW", window, "PERCENT", percent, "END", end.UTC().Format(time.RFC3339), "HASH", w.hash,
		"ALL", "algorithm: fixed_window, consistency: exact, timeout: 1s, on_failure: deny").Replace(expandedRules)
	weirPrints(w.T, "", "apply", proc.WriteFile(w, filepath.Join(w.dir, "rules.yaml"), text), "--consul", w.consul.Addr, "--reason", phase)
	if w.Stack != nil {
		w.inForce(phase)
	}
}

// inForce waits until all workers of the PoPs have the rules of a phase.
func (w *expanded) inForce(phase string) {
	w.Helper()
	everywhere(w.T, "the rules of the phase "+phase, w.PoPs, func(p *stack.PoP) bool { return p.Get("/"+phase).Status == http.StatusTooManyRequests })
}

// send sends requests to the PoPs in turn, and returns their statuses and the last answer.
func (w *expanded) send(n int, path string, headers ...string) (statuses string, last stack.Response) {
	w.Helper()
	for i := range n {
		last = w.PoPs[i%len(w.PoPs)].Get(path, headers...)
		statuses += fmt.Sprint(last.Status, " ")
	}
	return strings.TrimSpace(statuses), last
}

// expect sends requests and expects these statuses.
func (w *expanded) expect(want, path string, headers ...string) stack.Response {
	w.Helper()
	got, last := w.send(len(strings.Fields(want)), path, headers...)
	if got != want {
		w.Errorf("%s %q: %s, want %s", path, headers, got, want)
	}
	return last
}

// users sends so many requests of each of 30 users, and returns the statuses and the last answer of each.
func (w *expanded) users(n int, path string) (statuses [30]string, last [30]stack.Response) {
	w.Helper()
	proc.Together(len(statuses), func(i int) { statuses[i], last[i] = w.send(n, path, "x-user", fmt.Sprint("user-", i)) })
	return statuses, last
}

// counted waits until the PoPs together have counted so many requests.
func (w *expanded) counted(rule, decision string, want int64) {
	w.Helper()
	name := "wasmcustom.weir.decisions.rule." + rule + ".decision." + decision
	proc.Await(w, 10*time.Second, fmt.Sprint(name, ": ", want), func() string {
		if n := w.PoPs[0].Stats(name)[name] + w.PoPs[1].Stats(name)[name]; n != want {
			return fmt.Sprint(n)
		}
		return ""
	})
}

// Two windows admit what both admit. What one refuses costs nothing on the other, whose counter is in another shard. Both
// have their names in headers, in the access log, and in metrics of the PoP and the region.
func (w *expanded) windows() func() {
	r := w.expect("200", "/login", "x-user", "ann")
	expect(w.T, r, 200, map[string]string{"RateLimit-Policy": `^"login";q=6;w=86400, "login@2d";q=4;w=172800$`})
	r = w.expect("200 200 200 429 429", "/login", "x-user", "ann")
	expect(w.T, r, 429, map[string]string{"RateLimit": `^"login@2d";r=0;t=\d+$`})
	others := []string{"bob", "cid", "dan", "eve"}
	for _, user := range others {
		w.expect("200 200 200 200 429 429", "/login", "x-user", user)
	}
	w.counted("login@2d", "denied", 10)
	w.counted("login", "denied", 0)
	logs(w.T, w.log, "weir-denied:login@2d")
	const denied = `weir_grants_total{override="",rule="login@2d",status="denied"}`
	if w.tiers[1].Metrics()[denied]+w.tiers[2].Metrics()[denied] == 0 {
		w.Error("the region has no denial of login@2d")
	}
	return func() {
		for _, user := range append(others, "ann") {
			w.expect("200 200 429 429", "/login", "x-user", user)
		}
	}
}

// A part of the users is limited, the same ones at both PoPs: 14 of these 30 by the hash in docs/rules.md. What the others
// would be refused is counted. Those that are limited stay so when the percent rises; the 11 that come to it begin anew.
func (w *expanded) percent() func() {
	first, _ := w.users(3, "/part")
	w.total(first, map[string]int{"200 429 429": 14, "200 200 200": 16})
	w.counted("part", "denied", 2*14)
	w.counted("part@shadow", "shadow_denied", 2*16)
	return func() {
		second, _ := w.users(3, "/part")
		for i := range second {
			second[i] = first[i] + ", " + second[i]
		}
		w.total(second, map[string]int{"200 429 429, 429 429 429": 14, "200 200 200, 200 429 429": 11, "200 200 200, 200 200 200": 5})
	}
}

// Both variants decide by their own limit, for a user the same one at both PoPs, and are counted apart.
func (w *expanded) variants() func() {
	statuses, last := w.users(4, "/ab")
	for i := range statuses {
		statuses[i] += " " + last[i].Header.Get("X-Weir-Rule")
	}
	w.total(statuses, map[string]int{"200 429 429 429 ab@a": 15, "200 200 200 429 ab@b": 15})
	w.counted("ab@a", "allowed", 15)
	w.counted("ab@a", "denied", 3*15)
	w.counted("ab@b", "allowed", 3*15)
	w.counted("ab@b", "denied", 15)
	return func() {}
}

// total expects that so many users had such results.
func (w *expanded) total(results [30]string, want map[string]int) {
	w.Helper()
	got := map[string]int{}
	for _, result := range results {
		got[result]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%v, want %v", got, want)
	}
}

// A candidate counts what it would refuse, and refuses nothing, until it ends. What is exempt from its rule it does not count.
func (w *expanded) candidate() func() {
	w.expect("200 200 200 429 429", "/live", "x-user", "ann")
	w.expect("200 200 200 200", "/live", "x-user", "ann", "x-probe", "1")
	w.counted("lift", "exempt", 4)
	logs(w.T, w.log, `"weir":"lift exempt"`)
	counts := func(denied int64) {
		w.Helper()
		w.counted("live", "denied", denied)
		w.counted("live@candidate", "shadow_allowed", 1)
		w.counted("live@candidate", "shadow_denied", 4)
	}
	counts(2)
	return func() {
		w.expect("200 200 200 429 429", "/live", "x-user", "bob")
		counts(4)
	}
}

// Overrides without a limit show none, whether a PoP chooses them or the region. Those with an end hold until then, and
// what was counted stays.
func (w *expanded) overrides() func() {
	none := map[string]string{"RateLimit": "^$", "RateLimit-Policy": "^$"}
	expect(w.T, w.expect("200 200 200 200", "/tiers", "x-user", "ann", "x-tier", "staff"), 200, none)
	expect(w.T, w.expect("200 200 200 200", "/tiers", "x-user", "free"), 200, none)
	w.expect("200 429 429", "/tiers", "x-user", "ann")
	w.expect("200 200 429", "/tiers", "x-user", "bob", "x-tier", "gold")
	w.expect("200 200 200 429", "/tiers", "x-user", "granted")
	return func() {
		w.expect("429 429", "/tiers", "x-user", "ann")
		w.expect("200 429 429", "/tiers", "x-user", "cid", "x-tier", "gold")
		w.expect("429 429", "/tiers", "x-user", "granted")
		w.expect("200 429 429", "/tiers", "x-user", "later")
		w.expect("200 200", "/tiers", "x-user", "free")
	}
}
