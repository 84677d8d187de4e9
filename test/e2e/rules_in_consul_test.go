package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// rulesInConsul are an aggregator and two regions, each with a PoP and a datacenter of Consul.
// All take their rules from the first datacenter, which the other one has joined over WAN.
type rulesInConsul struct {
	t      *testing.T
	dir    string
	consul *consultest.Agent // the server of the first
	own    *consultest.Agent // that of the other one
	tiers  []*region.Region  // the aggregator, and the regions
	pops   []*stack.PoP
	first  string // the revision of the first rules
}

// weir runs the command line tool; it must succeed.
func (r *rulesInConsul) weir(args ...string) string {
	r.t.Helper()
	cmd := exec.Command(proc.Built(r.t, "bin/weir", "build"), append(args, "--consul", r.consul.Addr)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("weir %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// rules has one rule, whose name a refused request shows.
func (r *rulesInConsul) rules(name string) string {
	return proc.WriteFile(r.t, filepath.Join(r.dir, "rules.yaml"),
		fmt.Sprintf("rules: [{ name: %s, match: { path: /refused }, key: [path], limit: 1/1h, algorithm: fixed_window }]\n", name))
}

func startRulesInConsul(t *testing.T) *rulesInConsul {
	t.Helper()
	r := &rulesInConsul{t: t, dir: proc.LogDir(t)}
	names := []string{"eu", "us"}
	primary := consultest.StartDatacenter(t, consultest.Config{Dir: r.dir, Name: names[0]})
	r.consul = primary.Servers[0]
	tier := func(name, program string, agent *consultest.Agent, flags ...string) {
		one := region.New(t, region.Config{
			Dir: r.dir, Name: name, Program: program,
			Flags: append(flags, "--rules", "consul:", "--consul", agent.Addr, "--consul-primary", primary.Name,
				"--state", "off", "--rules-copy", filepath.Join(r.dir, name+".copy")),
		})
		r.tiers = append(r.tiers, one)
		one.Begin()
	}
	tier("global", "weir-global", r.consul)
	tier(names[0], "weir-regional", r.consul, "--region", names[0])
	r.own = consultest.StartDatacenter(t, consultest.Config{Dir: r.dir, Name: names[1], Primary: primary}).Servers[0]
	tier(names[1], "weir-regional", r.own, "--region", names[1])
	for _, one := range r.tiers {
		proc.Eventually(t, time.Minute, one.Name+" waits for rules", func() bool {
			_, text := one.Ready()
			return strings.Contains(text, "no rules yet")
		})
	}
	out := r.weir("apply", r.rules("first"), "--reason", "begin")
	if _, err := fmt.Sscanf(out, "revision %s is in force", &r.first); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var addrs []string
	for _, one := range r.tiers {
		one.AwaitReady()
		addrs = append(addrs, one.Addr)
	}
	r.pops = startPoPs(t, addrs[1:], func(*envoy.Bootstrap, int) {})
	return r
}

// enforces reports whether the next request to a PoP is judged by the rule.
func enforces(p *stack.PoP, name string) bool {
	resp, err := stack.Do(p.Addr, "GET", "/refused", "")
	return err == nil && strings.Contains(resp.Header.Get("Ratelimit-Policy"), name)
}

// awaitPoPs waits until all PoPs enforce the rule, and returns how long each took.
func (r *rulesInConsul) awaitPoPs(name string, began time.Time) []time.Duration {
	r.t.Helper()
	return r.await(name, began, func(p *stack.PoP) bool { return enforces(p, name) })
}

// await waits until something holds at all PoPs, and returns how long each took.
func (r *rulesInConsul) await(what string, began time.Time, holds func(*stack.PoP) bool) []time.Duration {
	r.t.Helper()
	took := make([]time.Duration, len(r.pops))
	var all sync.WaitGroup
	for i, p := range r.pops {
		all.Go(func() {
			for time.Since(began) < time.Minute && took[i] == 0 {
				if holds(p) {
					took[i] = time.Since(began).Round(time.Millisecond)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	all.Wait()
	for i, d := range took {
		if d == 0 {
			r.t.Fatalf("%s: %s does not hold after %v", r.pops[i].Name, what, time.Since(began))
		}
	}
	return took
}

func TestRulesInConsul(t *testing.T) {
	t.Parallel()
	r := startRulesInConsul(t)
	t.Run("changes", r.changes)
	t.Run("limits of keys", r.limitsOfKeys)
	t.Run("Consul is away", r.away)
}

// What is applied reaches every tier and every PoP.
func (r *rulesInConsul) changes(t *testing.T) {
	r.awaitPoPs("first", time.Now())
	for i := range 3 {
		name := fmt.Sprintf("rule-%d", i)
		file := r.rules(name)
		began := time.Now()
		r.weir("apply", file, "--reason", "change")
		applied := time.Since(began).Round(time.Millisecond)
		t.Logf("applied in %v; enforced by each PoP after %v", applied, r.awaitPoPs(name, began))
	}
	for i := range 2 {
		name := fmt.Sprintf("idle-%d", i)
		file := r.rules(name)
		time.Sleep(time.Second) // no reply has named the rules lately
		began := time.Now()
		r.weir("apply", file, "--reason", "change")
		time.Sleep(time.Until(began.Add(time.Second)))
		for _, p := range r.pops {
			t.Logf("%s, without requests: %s after 1 s: %v", p.Name, name, enforces(p, name))
		}
		if all := r.awaitPoPs(name, began); slices.Max(all) > 10*time.Second { // 1 s, unless the machine is busy
			t.Errorf("PoPs without requests had the rules after %v", all)
		}
	}
	back := time.Now()
	r.weir("rollback", r.first, "--reason", "back")
	r.awaitPoPs("first", time.Now())
	for _, one := range r.tiers {
		proc.Eventually(t, time.Minute, one.Name+" has the rules", func() bool {
			m := one.Metrics()
			return m["weir_rules_config_ok"] == 1 && m[`weir_rules_copy_ok{place="disk"}`] == 1
		})
		if age, most := one.Metrics()["weir_rules_age_seconds"], time.Since(back).Seconds(); age <= 0 || age > most {
			t.Errorf("%s: its rules are %v s old, %v s after they were applied", one.Name, age, most)
		}
	}
	if out := r.weir("history"); strings.Count(out, " * ") != 1 || !strings.Contains(out, "back to "+r.first+": back") {
		t.Errorf("history:\n%s", out)
	}
}

// A change of the limits of 100,000 keys reaches every PoP, for a key that all of them refused.
func (r *rulesInConsul) limitsOfKeys(t *testing.T) {
	file := func(limit string) string {
		text := new(strings.Builder)
		text.WriteString("rules:\n- name: users\n  match: { path: /users }\n  key: [{ header: x-user }]\n  limit: 10/1h\n  algorithm: fixed_window\n  overrides:\n")
		for i := range 100_000 {
			fmt.Fprintf(text, "  - { key: [user-%d], limit: %s }\n", i, limit)
		}
		return proc.WriteFile(t, filepath.Join(r.dir, "keys.yaml"), text.String())
	}
	answers := func(status int) func(*stack.PoP) bool {
		return func(p *stack.PoP) bool {
			resp, err := stack.Do(p.Addr, "GET", "/users", "", "x-user", "user-99999")
			return err == nil && resp.Status == status
		}
	}
	r.weir("apply", file("0/1h"), "--reason", "nobody")
	r.await("0/1h", time.Now(), answers(429))
	for i := range 2 {
		limit, status := "1000000/1h", 200
		if i%2 > 0 {
			limit, status = "0/1h", 429
		}
		path, began := file(limit), time.Now()
		var applied time.Duration
		var tool sync.WaitGroup
		tool.Go(func() {
			r.weir("apply", path, "--reason", "all")
			applied = time.Since(began)
		})
		took := r.await(limit, began, answers(status))
		tool.Wait()
		t.Logf("%s in force after %v; the tool took %v", limit, took, applied)
	}
}

// While the first datacenter is away all go on. A region that starts then has its copy: that on its
// disk or, where the disk is new, that in its own datacenter.
func (r *rulesInConsul) away(t *testing.T) {
	r.weir("rollback", r.first, "--reason", "back again")
	r.awaitPoPs("first", time.Now())
	proc.Eventually(t, time.Minute, "eu has a copy", func() bool {
		text, err := os.ReadFile(filepath.Join(r.dir, "eu.copy"))
		return err == nil && strings.Contains(string(text), "name: first")
	})
	eu, us, disk := r.tiers[1], r.tiers[2], filepath.Join(r.dir, "us.copy")
	proc.Eventually(t, time.Minute, "the datacenter of us has a copy", func() bool {
		manifest, err := page.Read(t.Context(), us.HTTP, "http://"+r.own.Addr+"/v1/kv/weir/rules-copy/manifest?raw")
		return err == nil && strings.Contains(string(manifest), "back again")
	})
	revision := us.Metrics()["weir_rules_revision"]
	r.consul.Kill()
	eu.Stop()
	eu.Start()
	us.Stop()
	if err := os.Remove(disk); err != nil {
		t.Fatal(err)
	}
	us.Start()
	if now := us.Metrics()["weir_rules_revision"]; now != revision || revision == 0 {
		t.Errorf("us has revision %.0f, and had %.0f", now, revision)
	}
	r.awaitPoPs("first", time.Now())
	proc.Eventually(t, time.Minute, "us has a copy on its disk again", func() bool {
		_, err := os.Stat(disk)
		return err == nil
	})
}
